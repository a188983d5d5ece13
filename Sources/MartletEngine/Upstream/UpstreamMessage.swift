// SPDX-License-Identifier: Apache-2.0
//
// A message from a device: the command, the stored record, and what the sender gets (UPS-1). The record is, little-endian: u32
// ordinal ‖ u64 start of the device key's digest ‖ u32 app number ‖ i64 accepted ‖ token (24 bytes) ‖ u16 bytes of the message
// ID ‖ message ID ‖ message in wire form.
//
// By the time a sender gets the message, the instance may have a new token, or be gone and its ordinal have another holder. So
// the sender is told the present token if the holder is still the same, and otherwise the token at acceptance. Rests on the
// ledgers.

package import MartletBase
package import MartletRows

/// A message from a device, to be accepted.
package struct UpstreamCommand: Sendable {
    /// The target of a device's message.
    package enum Target: Sendable, Hashable {
        /// The senders of the device's project.
        case project
        /// The other members of the group with this notification key (GRP-7).
        case group(String)
    }

    /// Project of the device.
    package var project: ProjectNumber
    /// Ordinal of the instance that sends.
    package var ordinal: Ordinal
    /// The ordinal's holder when it was sent. If the ordinal has another by now, the command is refused.
    package var holder: Holder
    /// Senders, or a group.
    package var target: Target
    /// The message ID that the device chose, 1 to 128 bytes.
    package var messageID: String
    /// In seconds. 0 if a sender must take the message at once; nil for the longest time.
    package var timeToLiveSeconds: UInt32?
    /// A valid message with only data, in wire form.
    package var body: [UInt8]
    /// Size of the message, for the project's limit (MSG-3).
    package var size: MessageSize

    package init(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, target: Target,
        messageID: String, timeToLiveSeconds: UInt32?, body: [UInt8],
        size: MessageSize = MessageSize()
    ) {
        self.project = project
        self.ordinal = ordinal
        self.holder = holder
        self.target = target
        self.messageID = messageID
        self.timeToLiveSeconds = timeToLiveSeconds
        self.body = body
        self.size = size
    }
}

/// The answer to the device, and the work for the book.
package struct UpstreamAcceptance: Sendable, Hashable {
    /// Project of the device.
    package var project: ProjectNumber
    /// The message's number among the messages of the project's devices.
    package var number: UInt64
    /// Whether a sender is to get the message. False for a repeated message ID, and for a message to a group.
    package var isForSenders: Bool
    /// The message, if the store doesn't keep it; else nil.
    package var passing: UpstreamMessage?

    package init(
        project: ProjectNumber, number: UInt64, isForSenders: Bool, passing: UpstreamMessage?
    ) {
        self.project = project
        self.number = number
        self.isForSenders = isForSenders
        self.passing = passing
    }
}

/// A device's message for a sender.
package struct UpstreamMessage: Sendable, Hashable {
    /// The message's number among those of the project's devices, by which senders acknowledge it.
    package var number: UInt64
    /// The instance's present token, or the last token known.
    package var token: Token
    /// Name of the instance's app; empty if the app is unknown to the store.
    package var appName: String
    /// The message ID that the device chose.
    package var messageID: String
    /// Acceptance of the message.
    package var accepted: Instant
    /// End of the message's time to live.
    package var expires: Instant
    /// A valid message with only data, in wire form.
    package var body: [UInt8]

    package init(
        number: UInt64, token: Token, appName: String, messageID: String, accepted: Instant,
        expires: Instant, body: [UInt8]
    ) {
        self.number = number
        self.token = token
        self.appName = appName
        self.messageID = messageID
        self.accepted = accepted
        self.expires = expires
        self.body = body
    }
}

extension UpstreamMessage {
    /// Length of a record up to the message ID.
    private static let fixedBytes = 26 + Limits.tokenRandomBytes

    init(
        _ record: UpstreamRecord, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        let bytes = record.bytes
        func word(_ start: Int, _ count: Int) -> UInt64 {
            (0..<count).reduce(0) { $0 | UInt64(bytes[start + $1]) << (UInt64($1) * 8) }
        }
        let idStart = Self.fixedBytes
        guard bytes.count >= idStart, bytes.count >= idStart + Int(word(idStart - 2, 2)) else {
            throw StorageError(
                operation: "read upstream", code: 0,
                text: "a record is damaged; run 'martlet check'", isFull: false)
        }
        let idEnd = idStart + Int(word(idStart - 2, 2))
        let ordinal = Ordinal(UInt32(word(0, 4)))
        var token = Token(bytes: Array(bytes[24..<(24 + Limits.tokenRandomBytes)]))
        if let instance = try storage.instances.instance(ordinal, in: project),
            instance.holder == Holder(word: word(4, 8))
        {
            token = instance.token
        }
        self.init(
            number: record.number, token: token,
            appName: try storage.projects.app(AppNumber(UInt32(word(12, 4))), in: project)?.name
                ?? "",
            messageID: String(decoding: bytes[idStart..<idEnd], as: UTF8.self),
            accepted: Instant(millisecondsSince1970: Int64(bitPattern: word(16, 8))),
            expires: record.expires, body: Array(bytes[idEnd...]))
    }

    /// Makes the record of a message.
    static func record(
        _ number: UInt64, of instance: Instance, _ message: UpstreamCommand, accepted: Instant,
        expires: Instant
    ) -> UpstreamRecord {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(fixedBytes + message.messageID.utf8.count + message.body.count)
        func append(_ value: UInt64, _ count: Int) {
            for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: value >> (index * 8))) }
        }
        append(UInt64(instance.ordinal.rawValue), 4)
        append(instance.holder.word, 8)
        append(UInt64(instance.app.rawValue), 4)
        append(UInt64(bitPattern: accepted.millisecondsSince1970), 8)
        bytes += instance.token.bytes
        append(UInt64(message.messageID.utf8.count), 2)
        bytes += Array(message.messageID.utf8)
        return UpstreamRecord(number: number, expires: expires, bytes: bytes + message.body)
    }

    // MARK: Reading

    /// What the book wants to read.
    package struct Wanted: Sendable, Hashable {
        /// Project of the messages.
        package var project: ProjectNumber
        /// Messages to be handed out again.
        package var numbers: [UInt64]
        /// New messages: at most `limit` with numbers above `after`.
        package var after: UInt64
        /// Most new messages; 0 reads none.
        package var limit: Int

        /// Wants old messages by number, and new ones above `after`. By default, none.
        package init(
            project: ProjectNumber, numbers: [UInt64] = [], after: UInt64 = 0, limit: Int = 0
        ) {
            self.project = project
            self.numbers = numbers
            self.after = after
            self.limit = limit
        }

        /// Requests one message.
        package init(project: ProjectNumber, number: UInt64) {
            self.init(project: project, numbers: [number])
        }
    }

    /// The messages that were found.
    package struct Found: Sendable, Hashable {
        /// The messages among `Wanted.numbers`.
        package var again: [UpstreamMessage] = []
        /// The messages behind `Wanted.after`.
        package var next: [UpstreamMessage] = []
        /// Messages up to this number were looked at.
        package var readThrough: UInt64
        /// Whether there may be messages behind `readThrough`.
        package var hasMore: Bool
    }

    /// Reads what the book wants. Expired and taken messages are left out.
    package static func find(
        _ wanted: Wanted, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Found {
        var found = Found(readThrough: wanted.after, hasMore: true)
        for number in wanted.numbers {
            guard let record = try storage.upstream.messages(number, in: wanted.project),
                record.expires > now
            else { continue }
            found.again.append(try UpstreamMessage(record, in: wanted.project, storage))
        }
        guard wanted.limit > 0 else { return found }
        let records = try storage.upstream.messages(
            in: wanted.project, after: wanted.after, limit: wanted.limit)
        for record in records where record.expires > now {
            found.next.append(try UpstreamMessage(record, in: wanted.project, storage))
        }
        found.readThrough = records.last?.number ?? wanted.after
        found.hasMore = records.count == wanted.limit
        return found
    }
}
