// SPDX-License-Identifier: Apache-2.0
//
// An event of a watched project in NODE_EVENTS (EMB-3). Its kind decides which fields follow, so the codec is written by hand.
// Rests on `WireReader` and `WireWriter`.

package import MartletBase

extension NodeEvents {
    /// An event of a project.
    package enum Event: Sendable, Hashable {
        case accepted(
            messageID: String, recipientCount: UInt64, isDeferred: Bool, isScheduled: Bool)
        case progress(
            messageID: String, recipientCount: UInt64, deliveredCount: UInt64, isDone: Bool)
        case refused(MartletError)

        private enum Kind: UInt8 {
            case accepted = 1
            case progress
            case refused
        }
    }
}

extension NodeEvents.Event: WireEntry {
    static var bytesMin: Int { 13 }

    init(from reader: inout WireReader) throws(WireError) {
        switch try reader.choice("event", as: Kind.self) {
        case .accepted:
            self = .accepted(
                messageID: try reader.string(), recipientCount: try reader.u64(),
                isDeferred: try reader.flag("deferred"), isScheduled: try reader.flag("scheduled"))
        case .progress:
            self = .progress(
                messageID: try reader.string(), recipientCount: try reader.u64(),
                deliveredCount: try reader.u64(), isDone: try reader.flag("done"))
        case .refused:
            self = .refused(try MartletError(from: &reader))
        }
    }

    func encode(into writer: inout WireWriter) {
        switch self {
        case .accepted(let messageID, let recipientCount, let isDeferred, let isScheduled):
            writer.u8(Kind.accepted.rawValue)
            writer.string(messageID)
            writer.u64(recipientCount)
            writer.flag(isDeferred)
            writer.flag(isScheduled)
        case .progress(let messageID, let recipientCount, let deliveredCount, let isDone):
            writer.u8(Kind.progress.rawValue)
            writer.string(messageID)
            writer.u64(recipientCount)
            writer.u64(deliveredCount)
            writer.flag(isDone)
        case .refused(let error):
            writer.u8(Kind.refused.rawValue)
            error.encode(into: &writer)
        }
    }
}
