// SPDX-License-Identifier: Apache-2.0
//
// UPS-1: what a device sends, what is kept of it until a sender has taken it, and what the sender
// is told. Kept is, little-endian: u32 ordinal ‖ u64 start of the device key's digest ‖ u32 app
// number ‖ i64 accepted ‖ token (24 bytes) ‖ u16 bytes of the message ID ‖ message ID ‖ message in
// wire form. The instance may have another token by the time a sender is told, or be gone, and its
// ordinal may be another's by then. So the sender is told the token of whoever sent the message, if
// the ordinal is still that one's, and else the token by which it was sent. Rests on the ledgers.

public import MartletBase
public import MartletRows

/// A message of a device on its way in.
public struct UpstreamCommand: Sendable {
    /// Who a device sends to.
    public enum Target: Sendable, Hashable {
        /// The senders of its project.
        case project
        /// GRP-7: the other members of a group, by its notification key.
        case group(String)
    }

    public var project: ProjectNumber
    public var ordinal: Ordinal
    public var holder: Holder
    public var target: Target
    /// The device's own.
    public var messageID: String
    /// 0: only if a sender can have it at once; nil: the longest.
    public var timeToLiveSeconds: UInt32?
    /// A valid message of data alone in wire form.
    public var body: [UInt8]

    public init(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, target: Target,
        messageID: String, timeToLiveSeconds: UInt32?, body: [UInt8]
    ) {
        self.project = project
        self.ordinal = ordinal
        self.holder = holder
        self.target = target
        self.messageID = messageID
        self.timeToLiveSeconds = timeToLiveSeconds
        self.body = body
    }
}

/// What the device is told, and what is to be done for it.
public struct UpstreamAcceptance: Sendable, Hashable {
    public var project: ProjectNumber
    /// Its place among the messages that the project's devices have sent.
    public var number: UInt64
    /// A sender is to have it: it was not accepted before with this ID, and is for no group.
    public var isForSenders: Bool
    /// The message itself, if it is kept nowhere.
    public var passing: UpstreamMessage?

    public init(
        project: ProjectNumber, number: UInt64, isForSenders: Bool, passing: UpstreamMessage?
    ) {
        self.project = project
        self.number = number
        self.isForSenders = isForSenders
        self.passing = passing
    }
}

/// A message of a device as a sender is told it.
public struct UpstreamMessage: Sendable, Hashable {
    /// Its place among the messages that the project's devices have sent: what senders acknowledge.
    public var number: UInt64
    /// The instance's by now, or the last that is known.
    public var token: Token
    public var appName: String
    /// The device's own.
    public var messageID: String
    public var accepted: Instant
    public var expires: Instant
    /// A valid message of data alone in wire form.
    public var body: [UInt8]

    public init(
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
    /// What every record begins with, up to the message ID.
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

    /// What is kept of a message.
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

    /// What the book wants to be read.
    public struct Wanted: Sendable, Hashable {
        public var project: ProjectNumber
        /// Messages to be handed out again.
        public var numbers: [UInt64]
        /// Behind them, those after this one, so many.
        public var after: UInt64
        public var limit: Int

        public init(
            project: ProjectNumber, numbers: [UInt64] = [], after: UInt64 = 0, limit: Int = 0
        ) {
            self.project = project
            self.numbers = numbers
            self.after = after
            self.limit = limit
        }

        /// One message.
        public init(project: ProjectNumber, number: UInt64) {
            self.init(project: project, numbers: [number])
        }
    }

    /// What was found.
    public struct Found: Sendable, Hashable {
        public var again: [UpstreamMessage] = []
        public var next: [UpstreamMessage] = []
        /// Everything up to here was looked at.
        public var readThrough: UInt64
        /// There may be more behind it.
        public var hasMore: Bool
    }

    /// Messages that have expired, or were taken, are not found.
    public static func find(
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
