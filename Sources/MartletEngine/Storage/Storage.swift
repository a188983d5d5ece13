// SPDX-License-Identifier: Apache-2.0
//
// What the engine asks of a store, inside one transaction. Two halves: what can be asked of any
// snapshot, and what only the one writing transaction may do. The engine keeps nothing durable in
// memory, so a transaction that fails can be thrown away and its commands applied again.
// Rests on the records and on MartletBits' views.

public import MartletBase
public import MartletBits
public import MartletCondition

/// The store could not do what it was asked: disk, map or file trouble, never the user's fault.
public struct StorageError: Error, Sendable, CustomStringConvertible {
    /// What was attempted (`"put"`, `"commit"`).
    public let operation: String
    /// The store's own error number.
    public let code: Int32
    public let text: String
    /// The store has no room left and can be grown; the transaction can then be applied again.
    public let isFull: Bool

    public init(operation: String, code: Int32, text: String, isFull: Bool) {
        self.operation = operation
        self.code = code
        self.text = text
        self.isFull = isFull
    }

    public var description: String { "store: \(operation): \(text) (\(code))" }
}

/// A stored message on its way to one instance. The bytes are valid inside the call that gets them.
public struct PendingMessage {
    public let header: MessageHeader
    /// A valid message in wire form.
    public let body: UnsafeRawBufferPointer

    public init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// How reading a log ended.
public enum LogScan: Sendable, Hashable {
    /// So many messages were looked at, and there is nothing more in the snapshot.
    case end(rowCount: Int)
    /// So many messages were looked at: there may be more behind `through`.
    case paused(through: MessageSequence)
}

/// Blocks of stored sets. A source has no way of failing in the middle: it ends, and says afterwards
/// whether that was the end.
public protocol StoredBlockSource: BlockSource {
    /// Throws if a set could not be read to its end. Asked on any copy of the source.
    func finish() throws(StorageError)
}

/// One consistent view of everything committed (plus, inside the writer, of what it wrote so far).
public protocol StorageReader: ~Copyable {
    associatedtype Blocks: StoredBlockSource

    /// Rises with every transaction: what was committed later has a higher one.
    var snapshot: UInt64 { get }
    /// The last transaction that changed a set of the project's, or is about to: with everything that
    /// was read in a snapshot not below this one, sets are as they are here.
    func lastSetChange(in project: ProjectNumber) -> UInt64

    func project(id: String) throws(StorageError) -> Project?
    func project(_ number: ProjectNumber) throws(StorageError) -> Project?
    /// In the order of their IDs, those after `id`.
    func projects(after id: String, limit: Int) throws(StorageError) -> [Project]

    func serverKey(id: String) throws(StorageError) -> ServerKey?
    func serverKeys(of project: ProjectNumber) throws(StorageError) -> [ServerKey]
    func serviceAccountKey(id: String) throws(StorageError) -> ServiceAccountKey?
    func serviceAccountKeys(
        of project: ProjectNumber
    ) throws(StorageError) -> [ServiceAccountKey]

    func app(_ number: AppNumber, in project: ProjectNumber) throws(StorageError) -> App?
    func app(
        named name: String, on platform: Platform, in project: ProjectNumber
    ) throws(StorageError) -> App?

    func locate(_ token: Token) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)?
    /// REG-4: whose token this was.
    func locateFormer(
        _ token: Token
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)?
    func instance(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Instance?

    func topic(named name: TopicName, in project: ProjectNumber) throws(StorageError) -> Topic?
    func topic(_ number: TopicNumber, in project: ProjectNumber) throws(StorageError) -> Topic?
    /// In the order of their names, those after `name`.
    func topics(
        in project: ProjectNumber, after name: String, limit: Int
    ) throws(StorageError) -> [Topic]
    /// Sorted.
    func topicNumbers(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> [UInt32]

    func group(_ key: GroupKey, in project: ProjectNumber) throws(StorageError) -> Group?
    func group(named name: GroupName, in project: ProjectNumber) throws(StorageError) -> Group?
    /// In the order of their names, those after `name`.
    func groups(
        in project: ProjectNumber, after name: String, limit: Int
    ) throws(StorageError) -> [Group]
    /// The groups that an instance is a member of.
    func groupKeys(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> [GroupKey]

    /// One slot per set, in order. The views live as long as the transaction, and not past a write.
    func blocks(
        of sets: [InstanceSet], in project: ProjectNumber
    ) throws(StorageError) -> Blocks

    /// How far a registered instance is.
    func mailboxState(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MailboxState

    /// The entries of an instance's log after `sequence`, in order. Looks at no more than `rowsMax`
    /// messages, whoever they are for.
    func forEachLogged(
        for owner: MailboxOwner, after sequence: MessageSequence, rowsMax: Int,
        _ body: (LogEntry) -> Void
    ) throws(StorageError) -> LogScan

    /// One message as a platform's instances get it; false if it is not there any more.
    func withMessage(
        _ sequence: MessageSequence, on platform: Platform, in project: ProjectNumber,
        _ body: (borrowing PendingMessage) -> Void
    ) throws(StorageError) -> Bool

    /// Where a message is in the order of stored ones; nil if it is there no more. The two numbers
    /// differ for those that were scheduled.
    func sequence(
        ofNumber number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence?

    /// Whether an instance is a recipient of a message; nil if nothing that is kept says so any more.
    func isRecipient(
        _ ordinal: Ordinal, of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> Bool?
    /// How many of a message's recipients have it: acknowledged it, singly or with everything before
    /// it in its lane. A look at each of them.
    func deliveredCount(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> UInt64

    /// STO-2: whether a sweep at `now` makes an instance inactive.
    func isInactivityDue(now: Instant, limits: MailboxLimits) throws(StorageError) -> Bool

    /// MSG-9: what a sender was answered who used this key, if that still holds at `now`.
    func answer(
        toKey key: String, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> KeptAnswer?

    /// MSG-10: a scheduled message, as it was put.
    func scheduled(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> ScheduledMessage?
    func scheduledCount(in project: ProjectNumber) throws(StorageError) -> UInt64
    /// The scheduled message of any project that is due at `now`, and first.
    func nextScheduled(dueAt now: Instant) throws(StorageError) -> ScheduledMessage?

    /// FAN-1: how many messages of each project wait for room, of those that have any.
    func deferredCounts() throws(StorageError) -> [ProjectNumber: Int]
    /// In the order of their numbers, those after `number`.
    func deferred(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [ScheduledMessage]

    /// RCP-1: events in the order of their numbers, those after `number`.
    func receipts(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [ReceiptRecord]

    /// REP-1: the sequence of a message that a report is kept of; nil: there is none.
    func reportSequence(
        ofNumber number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence?
    /// What became of it, with those who are pending looked at one by one.
    func report(
        of sequence: MessageSequence, in project: ProjectNumber, limits: MailboxLimits, now: Instant
    ) throws(StorageError) -> MessageReport?
    /// Day by day, and for each day app by app, as it was counted.
    func reportDays(
        _ days: ClosedRange<UInt32>, in project: ProjectNumber
    ) throws(StorageError) -> [DayReport]
    /// What of that is not counted yet, of messages accepted on a day or later: mailboxes that wait to be
    /// read have no place any more for some of what is pending.
    func dueOutcomes(
        since day: UInt32, in project: ProjectNumber, limits: MailboxLimits, now: Instant
    ) throws(StorageError) -> DueOutcomes
    /// REP-2: registered instances that a message was for and that have not got it, in the order of
    /// their ordinals, until `body` says that it has enough.
    func forEachNotReceived(
        _ sequence: MessageSequence, in project: ProjectNumber, from start: Ordinal,
        _ body: (Ordinal) -> Bool
    ) throws(StorageError)

    /// UPS-1: a message of a device that no sender has taken.
    func upstream(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> UpstreamRecord?
    /// In the order of their numbers, those after `number`.
    func upstream(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [UpstreamRecord]
    func upstreamCount(in project: ProjectNumber) throws(StorageError) -> UInt64
    /// The number of the message that an instance sent with this ID, if it is still known at `now`.
    func upstreamNumber(
        ofID id: String, of ordinal: Ordinal, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> UInt64?
}

/// The one writing transaction. Everything here is atomic with everything else in it.
public protocol StorageWriter: StorageReader, ~Copyable {
    /// Stores a new or changed project.
    func put(_ project: Project, isNew: Bool) throws(StorageError)
    func nextProjectNumber() throws(StorageError) -> ProjectNumber
    func put(_ key: ServerKey) throws(StorageError)
    func put(_ key: ServiceAccountKey) throws(StorageError)
    func put(_ app: App, in project: ProjectNumber) throws(StorageError)

    func insert(_ instance: Instance) throws(StorageError)
    /// Token, record, stored messages, watermark; not the sets it is a member of.
    func remove(
        _ instance: Instance, now: Instant, limits: MailboxLimits) throws(StorageError)

    /// A free number to use again, or nil.
    func takeFree(_ kind: FreeNumberKind, in project: ProjectNumber) throws(StorageError) -> UInt32?
    func putFree(
        _ number: UInt32, _ kind: FreeNumberKind, in project: ProjectNumber) throws(StorageError)

    /// `ordinals` is sorted and distinct. Returns how many were not members before.
    func add(
        _ ordinals: [UInt32], to set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> Int
    /// `ordinals` is sorted and distinct. Returns how many were members before.
    func remove(
        _ ordinals: [UInt32], from set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> Int

    func put(_ topic: Topic, in project: ProjectNumber, isNew: Bool) throws(StorageError)
    /// The topic has no subscriber any more.
    func remove(_ topic: Topic, in project: ProjectNumber) throws(StorageError)
    /// `numbers` is sorted and distinct.
    func setTopicNumbers(
        _ numbers: [UInt32], of ordinal: Ordinal, in project: ProjectNumber) throws(StorageError)

    /// GRP-1: a new group, or the same with other members.
    func put(_ group: Group, in project: ProjectNumber) throws(StorageError)
    func removeGroup(_ key: GroupKey, in project: ProjectNumber) throws(StorageError)

    /// Keeps a message for its recipients until it is acknowledged, collapsed, discarded or expires.
    func append(
        _ message: StoredMessage, recipients: Recipients, in project: ProjectNumber
    ) throws(StorageError)
    /// STO-2: keeps in mind who a message was discarded for, until `expires`.
    func appendDiscarded(
        _ sequence: MessageSequence, accepted: Instant, expires: Instant, recipients: Recipients,
        in project: ProjectNumber
    ) throws(StorageError)
    /// Nobody gets the message any more who has not got it: as if it expired now.
    /// - Returns: false if there is no such message.
    func expire(
        _ sequence: MessageSequence, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> Bool

    /// Instances have taken messages, and perhaps left. Nothing, where one is another's by now.
    /// - Parameter all: of each loop, in this order.
    /// - Returns: of each what is too much for one transaction: it is told again in another one.
    func acknowledge(
        _ all: [[Acknowledgement]], now: Instant, limits: MailboxLimits,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> [[Acknowledgement]]
    /// The instance is connected at `now`: not away (STO-1), and inactive no more (STO-2). A connection
    /// that is told again, or takes over from another, began when that did.
    func connected(
        _ ordinal: Ordinal, in project: ProjectNumber, _ connection: ConnectionStart, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError)
    /// The broker begins: the connections that there still are ended when the last one did. That is
    /// written down for each when its instance is looked at again,
    func beginRun(now: Instant) throws(StorageError)
    /// and for all of them in bounded steps.
    /// - Returns: whether there may be more.
    func endLostConnections(
        now: Instant, limits: MailboxLimits, rowsMax: Int
    ) throws(StorageError) -> Bool

    /// Sees to what happens by itself, and gives back the storage of what cannot matter any more, a
    /// bounded step at a time: instances become inactive, messages expire, answers and questions for
    /// receipts are forgotten. Not scheduled messages.
    /// - Returns: whether there is more to do at `now`.
    func sweep(now: Instant, limits: MailboxLimits, rowsMax: Int) throws(StorageError) -> Bool

    /// Writes a row as it is: the transaction has something to commit.
    func touch() throws(StorageError)

    /// REG-4: the instance goes by another token from now on; the one before becomes a former one,
    /// and the oldest past `Limits.formerTokensMax` is forgotten.
    func replaceToken(
        of ordinal: Ordinal, in project: ProjectNumber, with token: Token) throws(StorageError)

    /// MSG-9: keeps what a sender was answered until `expires`.
    func putAnswer(
        _ answer: KeptAnswer, toKey key: String, expires: Instant, in project: ProjectNumber
    ) throws(StorageError)

    /// MSG-10: keeps a message until it is removed; its number is new.
    func putScheduled(_ message: ScheduledMessage) throws(StorageError)
    /// - Returns: false if there is none.
    func removeScheduled(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool

    /// FAN-1: keeps a message until it is removed; its number is new.
    func putDeferred(_ message: ScheduledMessage) throws(StorageError)
    /// - Returns: false if there is none.
    func removeDeferred(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool

    /// RCP-1: from now until `expires` receipts of this message are wanted, stored or not. Told again,
    /// these are recipients too; few are remembered until then, whatever becomes of the message.
    func putReceiptsWanted(
        of sequence: MessageSequence, number: UInt64, expires: Instant, from recipients: Recipients,
        in project: ProjectNumber
    ) throws(StorageError)
    /// RCP-2: an instance tells something of a message. What is displayed and opened is counted (REP-1).
    /// - Returns: the message's number; nil if nobody wants to know, or it told that before.
    func takeReceipt(
        _ kind: ReceiptKind, of sequence: MessageSequence, by instance: Instance, now: Instant
    ) throws(StorageError) -> UInt64?
    /// RCP-1: keeps an event for the project's senders. If there are too many, the oldest goes.
    /// - Returns: its number: they ascend from 1, and are never used again.
    func appendReceipt(
        _ bytes: [UInt8], in project: ProjectNumber
    ) throws(StorageError) -> UInt64
    func removeReceipts(
        through number: UInt64, in project: ProjectNumber) throws(StorageError)

    /// REP-1: a message was accepted. What becomes of it from then on is counted where it happens.
    func beginReport(_ report: NewReport, in project: ProjectNumber) throws(StorageError)
    /// REP-1: messages were written to connections, today.
    func countSent(_ sent: [SentCount], now: Instant) throws(StorageError)
    /// REP-1: adds to what was counted of whole days.
    func count(_ days: [DayCount]) throws(StorageError)

    /// UPS-1: they ascend from 1 and are never used again.
    func takeUpstreamNumber(in project: ProjectNumber) throws(StorageError) -> UInt64
    /// Keeps a message until it is removed or expires; its number was just taken.
    func putUpstream(
        _ record: UpstreamRecord, in project: ProjectNumber) throws(StorageError)
    /// - Returns: false if there is none.
    func removeUpstream(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool
    /// Keeps in mind which message an instance sent with this ID, until `until`, or until it has
    /// sent `idsMax` others.
    func putUpstreamNumber(
        _ number: UInt64, ofID id: String, of ordinal: Ordinal, in project: ProjectNumber,
        now: Instant, until: Instant, idsMax: Int
    ) throws(StorageError)
}

/// MSG-9: what a sender was answered.
public struct KeptAnswer: Sendable, Hashable {
    public var acceptance: Acceptance
    /// Tells the message from another with the same key.
    public var digest: UInt64

    public init(acceptance: Acceptance, digest: UInt64) {
        self.acceptance = acceptance
        self.digest = digest
    }
}

/// A message that waits: for its time (MSG-10), or for room (FAN-1).
public struct ScheduledMessage: Sendable, Hashable {
    public var project: ProjectNumber
    /// The number in the message ID.
    public var number: UInt64
    /// What its life is counted from: when it is to be sent, or was to be.
    public var due: Instant
    /// Whatever the engine made of it.
    public var bytes: [UInt8]

    public init(project: ProjectNumber, number: UInt64, due: Instant, bytes: [UInt8]) {
        self.project = project
        self.number = number
        self.due = due
        self.bytes = bytes
    }
}

/// RCP-1: an event that waits for a sender.
public struct ReceiptRecord: Sendable, Hashable {
    public var number: UInt64
    /// Whatever the engine made of it.
    public var bytes: [UInt8]

    public init(number: UInt64, bytes: [UInt8]) {
        self.number = number
        self.bytes = bytes
    }
}

/// UPS-1: a message of a device that waits for a sender.
public struct UpstreamRecord: Sendable, Hashable {
    public var number: UInt64
    public var expires: Instant
    /// Whatever the engine made of it.
    public var bytes: [UInt8]

    public init(number: UInt64, expires: Instant, bytes: [UInt8]) {
        self.number = number
        self.expires = expires
        self.bytes = bytes
    }
}

/// What numbers are used again once nothing refers to them.
public enum FreeNumberKind: UInt8, Sendable {
    case ordinal = 1
    case topic = 2
}

/// Who a message is for.
public enum Recipients: Sendable {
    case one(Ordinal)
    case many(RecipientSet)

    public var count: UInt64 {
        switch self {
        case .one: 1
        case .many(let set): UInt64(set.count)
        }
    }
}
