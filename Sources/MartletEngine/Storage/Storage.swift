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
    public let body: UnsafeRawBufferPointer

    public init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// How reading a mailbox ended.
public enum PendingScan: Sendable, Hashable {
    /// There is nothing more in the snapshot.
    case end
    /// The reader had enough; the message it was last given was not taken.
    case stopped
    /// So many messages were looked at: nothing up to here is left, and there may be more behind.
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

    func project(id: String) throws(StorageError) -> Project?
    func project(_ number: ProjectNumber) throws(StorageError) -> Project?
    /// In the order of their IDs, those after `id`.
    func projects(after id: String, limit: Int) throws(StorageError) -> [Project]

    func serverKey(id: String) throws(StorageError) -> ServerKey?
    func serverKeys(of project: ProjectNumber) throws(StorageError) -> [ServerKey]

    func app(_ number: AppNumber, in project: ProjectNumber) throws(StorageError) -> App?
    func app(
        named name: String, on platform: Platform, in project: ProjectNumber
    ) throws(StorageError) -> App?

    func locate(_ token: Token) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)?
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

    /// One slot per set, in order. The views live as long as the transaction, and not past a write.
    func blocks(
        of sets: [InstanceSet], in project: ProjectNumber
    ) throws(StorageError) -> Blocks

    /// Every message up to here is acknowledged, or from before the instance was registered.
    func watermark(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence

    /// Stored messages for an instance after `sequence` that are not acknowledged and live at `now`,
    /// in order, until `body` returns false. Looks at no more than `rowsMax` messages, whoever they
    /// are for.
    func forEachPending(
        for ordinal: Ordinal, in project: ProjectNumber, after sequence: MessageSequence,
        now: Instant, rowsMax: Int, _ body: (borrowing PendingMessage) -> Bool
    ) throws(StorageError) -> PendingScan
}

/// The one writing transaction. Everything here is atomic with everything else in it.
public protocol StorageWriter: StorageReader, ~Copyable {
    /// Stores a new or changed project.
    func put(_ project: Project, isNew: Bool) throws(StorageError)
    func nextProjectNumber() throws(StorageError) -> ProjectNumber
    func put(_ key: ServerKey) throws(StorageError)
    func put(_ app: App, in project: ProjectNumber) throws(StorageError)

    func insert(_ instance: Instance) throws(StorageError)
    /// Token, record, stored messages, watermark; not the sets it is a member of.
    func remove(_ instance: Instance) throws(StorageError)

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

    /// Keeps a message for its recipients until it is acknowledged or expires.
    func append(
        _ header: MessageHeader, body: [UInt8], recipients: Recipients, in project: ProjectNumber
    ) throws(StorageError)

    /// Everything up to `through` is acknowledged, and each of `single`, which lie above it.
    func acknowledge(
        through: MessageSequence, single: [UInt64], for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError)
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
