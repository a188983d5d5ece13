// SPDX-License-Identifier: Apache-2.0
//
// What a topic may be called (TOP-2). Input is validated once, at the edge; code behind the edge can rely on a `TopicName`.
// Rests on `Limits`.

/// A valid topic name without the `/topics/` prefix: 1 to 900 bytes of `[a-zA-Z0-9-_.~%]`. Case-sensitive.
public struct TopicName: Hashable, Sendable, CustomStringConvertible {
    /// The name without the `/topics/` prefix: 1 to 900 bytes.
    public let text: String

    /// Accepts one optional `/topics/` prefix and removes the prefix.
    ///
    /// - Throws: `invalidArgument` for an empty name, a name above 900 bytes, or another character.
    public init(validating text: some StringProtocol) throws(MartletError) {
        let prefix = "/topics/"
        let bare = text.hasPrefix(prefix) ? String(text.dropFirst(prefix.count)) : String(text)
        let count = bare.utf8.count
        guard count > 0 else {
            throw MartletError(
                .invalidArgument,
                "The topic name is empty; write 1 to 900 bytes of [a-zA-Z0-9-_.~%].",
                field: "topic")
        }
        guard count <= Limits.topicNameBytesMax else {
            throw MartletError(
                .invalidArgument,
                "The topic name has \(count) bytes; at most \(Limits.topicNameBytesMax) are allowed.",
                field: "topic")
        }
        if let offset = bare.utf8.enumerated().first(where: { !Self.isAllowed($0.element) })?.offset
        {
            throw MartletError(
                .invalidArgument,
                "The topic name has a character outside [a-zA-Z0-9-_.~%] at byte \(offset).",
                field: "topic", byteOffset: UInt32(offset))
        }
        self.text = bare
    }

    /// Whether a topic name may contain the byte: `[a-zA-Z0-9-_.~%]`.
    @inlinable
    public static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: "."), UInt8(ascii: "~"), UInt8(ascii: "%"):
            true
        default: false
        }
    }

    public var description: String { text }
}
