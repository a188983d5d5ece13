// SPDX-License-Identifier: Apache-2.0
//
// Commands and outcomes as bytes. A node of a cluster that does not write forwards commands to the active node, and
// gets the outcomes back in rows of the log or over the link. The bytes of a command, and of an outcome, are:
//
//   u8 format ‖ u8 kind ‖ fields of the kind
//
// Each value has one form of bytes. The reader refuses all other forms, so equal bytes and equal values are the same
// question. Fields are written by `FieldWriter`. Pure.

/// OPS-7: the versions and bounds of forwarded commands and their outcomes.
package enum ForwardingFormat {
    /// The format that this program writes.
    package static let current: UInt8 = 1
    /// The readable formats. Nodes of two versions forward in a format common to both.
    package static let readable: ClosedRange<UInt8> = 1...1

    /// OPS-7: longest command or outcome, in bytes. The longest commands are a loop's acknowledgements after an outage:
    /// 131,072 connections, each with up to 100 bytes.
    package static let bytesMax = 16 << 20
    /// OPS-7: entries of a list: more than the connections of a loop. Entries take more room in memory than in bytes,
    /// so a bound on bytes alone would be too weak.
    package static let listEntriesMax = 262_144
    /// OPS-7: depth of targets within targets. The engine refuses targets within targets, and a reader without the
    /// bound would call itself as often as a faulty peer likes.
    package static let nestingMax = 2
}

/// The fault of a command or an outcome in bytes.
package enum ForwardingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The bytes are of a format that this program does not read.
    case format(UInt8)
    /// A numbered choice has a number that the format does not list.
    case unknown(field: String, number: UInt64)
    /// The bytes end inside of a field.
    case truncated(offset: Int)
    /// Bytes follow the last field.
    case trailing(byteCount: Int)
    /// A text is not UTF-8.
    case notUTF8(offset: Int)
    /// A field has a value out of its bounds, or is not written in its only form.
    case malformed(field: String, offset: Int)
    /// A command, an outcome or a list is longer than its bound.
    case tooLong(field: String, count: Int, max: Int)

    package var description: String {
        switch self {
        case .format(let found):
            """
            the bytes have format \(found), and this node reads formats \
            \(ForwardingFormat.readable.lowerBound) to \(ForwardingFormat.readable.upperBound); \
            upgrade the older node
            """
        case .unknown(let field, let number):
            "the field \(field) has the unknown number \(number); upgrade the older node"
        case .truncated(let offset):
            "the bytes end inside of the field at byte \(offset); the sending node is faulty"
        case .trailing(let count):
            "\(count) bytes follow the last field; the sending node is faulty"
        case .notUTF8(let offset):
            "the text at byte \(offset) is not UTF-8; the sending node is faulty"
        case .malformed(let field, let offset):
            "the field \(field) at byte \(offset) is malformed; the sending node is faulty"
        case .tooLong(let field, let count, let max):
            "\(field) has \(count) bytes or entries, and \(max) can be forwarded; send less at once"
        }
    }
}
