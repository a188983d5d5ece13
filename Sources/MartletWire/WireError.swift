// SPDX-License-Identifier: Apache-2.0
//
// Faults in the bytes of a peer, each with the numbers behind the fault. A `WireError` is a fault of form. An
// overlong list or a topic name with a blank is well-formed, so the codec accepts both and the broker refuses them.
// Rests on `MartletError`, which tells the peer about a fault.

public import MartletBase

/// A fault of form in a frame.
public enum WireError: Error, Sendable, Hashable {
    /// The body ends before the end of a field.
    case truncated(neededBytes: Int, availableBytes: Int)
    /// The body continues after the last field.
    case trailingBytes(count: Int)
    /// A text is not UTF-8. The offset is the offset of the text in the body.
    case invalidUTF8(byteOffset: Int)
    /// A frame has length 0 and so lacks even the type byte.
    case emptyFrame
    /// NET-3: the length field announces more bytes than this connection may send in a frame.
    case frameTooLong(bytes: Int, maxBytes: Int)
    /// No frame type has this number.
    case unknownFrameType(UInt8)
    /// The frame type exists, but not for this side, for this role or at this point.
    case unexpectedFrame(FrameType)
    /// HELLO does not begin with `MRTL`: the peer speaks another protocol.
    case wrongMagic(UInt32)
    /// HELLO asks for a version that this side does not speak.
    case unsupportedVersion(UInt8)
    /// A request carries correlation 0, which is reserved for the connection itself.
    case zeroCorrelation
    /// A numbered choice or a flag has a value that the document WireProtocol does not list.
    case unknownValue(field: String, value: UInt64)
    /// The fields of a message are not in the order of their tags, or a field allowed only once is repeated.
    case misplacedMessageField(tag: UInt8)

    /// Error that the peer gets before the connection closes.
    public var martletError: MartletError {
        let word: ErrorWord
        let text: String
        switch self {
        case .truncated(let needed, let available):
            word = .protocolViolation
            text =
                "The frame ends too early: a field needs \(needed) bytes and \(available) are left."
        case .trailingBytes(let count):
            word = .protocolViolation
            text = "The frame has \(count) bytes after its last field; end it there."
        case .invalidUTF8(let offset):
            word = .protocolViolation
            text = "The text at byte \(offset) of the frame's body is not UTF-8."
        case .emptyFrame:
            word = .protocolViolation
            text = "The frame has length 0; the length counts the type byte, so it is at least 1."
        case .frameTooLong(let bytes, let max):
            word = .protocolViolation
            text = "The frame has \(bytes) bytes; at most \(max) are taken on this connection."
        case .unknownFrameType(let type):
            word = .protocolViolation
            text = "There is no frame of type \(type) in version \(WireVersion.current)."
        case .unexpectedFrame(let type):
            word = .protocolViolation
            text = "A frame of type \(type.rawValue) (\(type)) is out of place here."
        case .wrongMagic:
            word = .protocolViolation
            text = "The connection does not begin with HELLO and MRTL; is this a Martlet client?"
        case .unsupportedVersion(let version):
            word = .invalidArgument
            text =
                "Version \(version) of the protocol is not spoken here; use version \(WireVersion.current)."
        case .zeroCorrelation:
            word = .protocolViolation
            text = "The request has correlation 0; choose another number."
        case .unknownValue(let field, let value):
            word = .protocolViolation
            text = "The field \(field) has the unknown value \(value)."
        case .misplacedMessageField(let tag):
            word = .protocolViolation
            text = "The message's field of tag \(tag) is repeated or not in the order of the tags."
        }
        return MartletError(word, text)
    }
}
