// SPDX-License-Identifier: Apache-2.0
//
// Every table, every key and every value of the store, in one place. Keys are big-endian, so that
// their order is the order of the numbers in them; values are little-endian. p = project number
// (u32), o = ordinal (u32), t = topic number (u32), s = message sequence (u64).
//
//  table           key                        value
//  ──────────────  ─────────────────────────  ──────────────────────────────────────────────────────
//  meta            "format"                   u32 format version
//                  "projects"                 u32 next project number
//                  "run"                      how often a broker began (`RunRow`)
//  projects        p                          project record
//                  p ‖ u8 0                   messages that expire in the order of their sequences
//                                             (`ExpiryLineRow`)
//                  p ‖ ~day u32 ‖ app u32     what was counted of the messages of a day: the newest beside the
//                                             record, since both change with each message
//  projectIDs      ID                         u32 p
//  keys            key ID                     server key record
//  apps            p ‖ app number u32         u8 platform ‖ name
//  appNames        p ‖ u8 platform ‖ name     u32 app number
//  tokens          token (24 bytes)           u32 p ‖ u32 o
//  formerTokens    token (24 bytes)           u32 p ‖ u32 o; tokens of before that still let in
//  instances       p ‖ o                      instance record
//  topics          p ‖ t                      u64 subscribers ‖ name
//  topicNames      p ‖ name*                  u32 t ‖ name            * names over 440 bytes: below
//  sets            p ‖ set u32 ‖ block u32    block or span of a set  (see `SetKey`)
//  instanceTopics  p ‖ o                      sorted u32 list of t
//  groups          p ‖ key (24 bytes)         group record: text name ‖ u32 o of each member
//  groupNames      p ‖ name                   key
//  instanceGroups  p ‖ o ‖ key                empty
//  messages        p ‖ s [‖ 1]                message record         (`MessageRecord`)
//  recipients      p ‖ s [‖ 1]                recipients blob (`RecipientSet`); messages with many
//  inbox           p ‖ o ‖ s                  messages with few: one row per recipient (`InboxRow`)
//  mailboxes       p ‖ o                      how far the instance is (`MailboxRow`)
//  connections     p ‖ o                      u64 s when it began ‖ u64 number of the connection ‖ u32 run
//  runs            p ‖ run u32                u64 s ‖ i64: where connections of earlier runs ended
//  acknowledged    p ‖ o ‖ s                  empty: acknowledged, but above the lowest mark; or
//                                             u8 1: no entry of the instance's log any more
//  free            p ‖ u8 kind ‖ number u32   empty; ordinals and topic numbers to use again
//  due             u8 kind ‖ u64 ms ‖ p ‖ id  empty; what happens by itself (`DueKind`)
//  answers         p ‖ digest (16 bytes)      answer record, by the digest of an idempotency key
//  scheduled       p                          u64 how many there are
//                  p ‖ message number u64     i64 due ‖ what the engine made of the message
//  deferred        p                          u64 how many there are
//                  p ‖ message number u64     i64 begin of its life ‖ what the engine made of it
//  numbers         p ‖ message number u64     u64 s; messages whose number is not their sequence
//  receiptsWanted  p ‖ s                      i64 expires ‖ u64 message number [‖ who got it: u32 o ‖
//                                             8 bytes of the device key's digest; nothing: many]
//  receiptsTold    p ‖ o ‖ s                  i64 expires ‖ u8 bits, one for each kind of receipt
//  collections     p                          how far collecting fanouts is (`CollectionRow`)
//  live            p ‖ s [‖ 1]                empty; a fanout that somebody was found to need
//  receipts        p                          u64 number of the last event ‖ u64 taken up to here
//                  p ‖ event number u64       what the engine made of the event
//  upstream        p                          u64 number of the last message ‖ u64 how many there are
//                  p ‖ number u64             i64 expires ‖ what the engine made of the message
//  upstreamIDs     p ‖ o                      i64 due ‖ for each of its last message IDs, the oldest first:
//                                             digest (16 bytes) ‖ i64 known until ‖ u64 number
//  reports         p ‖ s                      what was counted of a message (`ReportRow`)
//  reportNumbers   p ‖ message number u64     u64 s; where the number is not the sequence
//  missed          p ‖ s ‖ block u32          one block of those that do not get a message any more
//  closings        p ‖ s                      u32 block: a message whose time is over, looked through so far
//  serviceAccounts key ID                     service-account key record: p ‖ u32 revoked ‖ i64 created ‖
//                                             text name ‖ text e-mail ‖ public key
//
// A message's row and the row of those it was discarded for have the same sequence; the latter's key
// has a byte more, so that it comes right behind.
//
// Blocks of a set. An ordinal's block is its upper 17 bits. A value of 4080 bytes is a bitmap (with
// LMDB's page header exactly one overflow page); any other even number of bytes is a sorted list of
// u16 bit positions, of at most 500. An odd number of bytes are the runs of sixteen blocks in one row
// (`RunSpan`), under the number of the first, which is a multiple of 16; then none of them has a row of
// its own. A topic of at most 2044 subscribers lies under the block number 0xFFFFFFFF alone, as a
// sorted list of u32 ordinals, read in one piece instead of a row a block.
//
// Members that lie together are a run: everybody, an app's instances, those who came at the same
// time. Half a million of them are one row of 67 bytes, where bitmaps took sixteen pages.
//
// LMDB's keys have at most 511 bytes and topic names up to 900: a name of more than 440 bytes is
// keyed by its first 440 bytes and the SHA-256 of the whole; the value has the name.

import Crypto
public import MartletBase

/// The version of everything drawn above. A folder of a newer one is refused.
package let storeFormatVersion: UInt32 = 10

/// The tables, in the order in which they are opened.
public enum Table: Int, CaseIterable, Sendable {
    case meta, projects, projectIDs, keys, apps, appNames, tokens, instances, topics, topicNames
    case sets, instanceTopics, messages, recipients, inbox, mailboxes, acknowledged, free
    case due, answers, scheduled, numbers, receiptsWanted, receiptsTold, receipts
    case collections, live, connections, runs, deferred, upstream, upstreamIDs
    case groups, groupNames, instanceGroups, formerTokens
    case reports, reportNumbers, missed, closings
    case serviceAccounts

    public var name: String { String(describing: self) }
}

/// Sets that are no topic have the upper four bits set to their kind.
package enum SetKey {
    package static let smallTopicBlock: UInt32 = 0xFFFF_FFFF
    /// Where a topic's one list becomes blocks: 2044 × 4 bytes and LMDB's page header are exactly two
    /// pages. At half of it blocks become one list again.
    package static let smallTopicMembersMax = 2044
    /// Where a block's list becomes a bitmap: a quarter of the bitmap's bytes.
    package static let listMembersMax = 500

    package static func number(of set: InstanceSet) -> UInt32 {
        switch set {
        case .topic(let topic): topic.rawValue
        case .everyone: 0x8000_0000
        case .platform(let platform): 0x9000_0000 | UInt32(platform.rawValue)
        case .app(let app): 0xA000_0000 | app.rawValue
        case .inactive: 0xB000_0000
        }
    }

    package static func isTopic(_ set: UInt32) -> Bool { set < 0x1000_0000 }
}

/// What a row of the table `due` waits for. `time` is when it is due, but for `.seen`.
package enum DueKind: UInt8, CaseIterable {
    /// id = s: the message expires. Not of those in the project's expiry line.
    case expiry = 1
    /// id = s: who it was discarded for is not told any more.
    case discarded = 2
    /// id = o; time = when it was last connected. Every instance that is not in the inactive set.
    case seen = 3
    /// id = digest: who repeats the idempotency key is not answered the same any more.
    case answer = 4
    /// id = message number. Not for the sweep, but for the engine.
    case scheduled = 5
    /// id = s: nobody wants receipts of the message any more.
    case receiptsWanted = 6
    /// id = o ‖ s: what the instance told is not asked any more.
    case receiptsTold = 7
    /// id = o: its inbox has many rows that were replaced.
    case settlement = 8
    /// No id: the project's fanouts are to be collected.
    case collection = 9
    /// No id: senders have taken events that are not deleted yet.
    case receiptsTaken = 10
    /// id = number of a device's message: it expires.
    case upstream = 11
    /// id = o: some of its message IDs are not known any more.
    case upstreamIDs = 12
    /// id = s; time = when it was accepted. The project's oldest report: what was counted of its message
    /// is not kept any longer.
    case report = 13
    /// id = the day; time = when that began. The same of a day.
    case reportDay = 14
    /// No id: the first message of the project's expiry line may have expired.
    case expiryLine = 15
}

/// What a row of the inbox says beside its key: nothing; one byte: it was discarded; eight: what a
/// message for this instance alone replaces (0: the app's key); nine: and that it was replaced itself.
package enum InboxRow {
    package static let message: [UInt8] = []
    package static let discarded: [UInt8] = [1]

    package static func collapsible(_ digest: UInt64) -> [UInt8] {
        withUnsafeBytes(of: digest.littleEndian) { Array($0) }
    }

    package static func row(_ sequence: MessageSequence, _ value: UnsafeRawBufferPointer) -> LogRow
    {
        LogRow(sequence, isDiscarded: value.count == 1)
    }
}

/// A row of the log: a message, or those it was discarded for.
package struct LogRow: Hashable {
    package var sequence: MessageSequence
    package var isDiscarded = false

    package init(_ sequence: MessageSequence, isDiscarded: Bool = false) {
        self.sequence = sequence
        self.isDiscarded = isDiscarded
    }

    /// From a key of `messages` or `recipients`.
    package init(_ key: RowKey) {
        sequence = key.sequence
        isDiscarded = key.count == 13
    }
}

/// An idempotency key, or a message ID of a device, told apart by the first 16 bytes of its
/// SHA-256.
package struct AnswerDigest: Hashable {
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }
    package init(of key: String) { bytes = Array(SHA256.hash(data: Array(key.utf8)).prefix(16)) }
}

/// A key of at most 511 bytes under construction. One without a name fits into the value itself, so
/// that making it costs no allocation.
public struct Key: Sendable {
    @usableFromInline static let nameBytesMax = 440
    @usableFromInline static let shortBytesMax = 32

    @usableFromInline var short: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    public var count = 0
    /// All bytes, if they are more than fit.
    @usableFromInline var long: [UInt8] = []

    @inlinable public init() {}
    @inlinable public init(_ project: ProjectNumber) { append(project.rawValue) }
    @inlinable public init(bytes: [UInt8]) { append(name: bytes) }

    /// The token's 24 bytes.
    @inlinable public init(_ token: Token) {
        appendInteger(token.words.0.littleEndian)
        appendInteger(token.words.1.littleEndian)
        appendInteger(token.words.2.littleEndian)
    }

    @inlinable public var bytes: [UInt8] { withBytes { Array($0) } }

    @inlinable public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        guard long.isEmpty else {
            return try long.withUnsafeBufferPointer { (bytes) throws(Failure) in
                try body(UnsafeRawBufferPointer(bytes))
            }
        }
        return try withUnsafeBytes(of: short) { (bytes) throws(Failure) in
            try body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    @inlinable public mutating func append(_ value: UInt32) { appendInteger(value.bigEndian) }
    @inlinable public mutating func append(_ value: UInt64) { appendInteger(value.bigEndian) }
    @inlinable public mutating func append(byte: UInt8) { appendInteger(byte) }

    @inlinable public mutating func append(name: some Sequence<UInt8>) {
        let bytes = Array(name)
        bytes.withUnsafeBytes { append($0) }
    }

    @inlinable @inline(__always)
    mutating func appendInteger<T: FixedWidthInteger>(_ value: T) {
        let at = count
        guard long.isEmpty, at + MemoryLayout<T>.size <= Self.shortBytesMax else {
            withUnsafeBytes(of: value) { append($0) }
            return
        }
        withUnsafeMutableBytes(of: &short) {
            $0.storeBytes(of: value, toByteOffset: at, as: T.self)
        }
        count = at + MemoryLayout<T>.size
    }

    @inlinable mutating func append(_ bytes: UnsafeRawBufferPointer) {
        let at = count
        if long.isEmpty, at + bytes.count <= Self.shortBytesMax {
            withUnsafeMutableBytes(of: &short) {
                UnsafeMutableRawBufferPointer(rebasing: $0[at...]).copyMemory(from: bytes)
            }
        } else {
            if long.isEmpty { long = self.bytes }
            long.append(contentsOf: bytes)
        }
        count = at + bytes.count
    }

    @inlinable public static func ordinal(_ ordinal: Ordinal, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(ordinal.rawValue)
        return key
    }

    @inlinable public static func sequence(_ sequence: MessageSequence, in project: ProjectNumber)
        -> Key
    {
        var key = Key(project)
        key.append(sequence.rawValue)
        return key
    }

    package static func log(_ row: LogRow, in project: ProjectNumber) -> Key {
        var key = Key.sequence(row.sequence, in: project)
        if row.isDiscarded { key.append(byte: 1) }
        return key
    }

    package static func due(_ kind: DueKind, _ time: Instant, _ project: ProjectNumber) -> Key {
        var key = Key()
        key.append(byte: kind.rawValue)
        key.append(UInt64(clamping: time.millisecondsSince1970))
        key.append(project.rawValue)
        return key
    }

    package static func due(
        _ kind: DueKind, _ time: Instant, _ project: ProjectNumber, _ id: UInt64
    ) -> Key {
        var key = Key.due(kind, time, project)
        key.append(id)
        return key
    }

    package static func due(
        _ kind: DueKind, _ time: Instant, _ project: ProjectNumber, _ id: some Sequence<UInt8>
    ) -> Key {
        var key = Key.due(kind, time, project)
        key.append(name: id)
        return key
    }

    @inlinable public static func number(_ number: UInt64, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number)
        return key
    }

    package static func answer(_ digest: AnswerDigest, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: digest.bytes)
        return key
    }

    @inlinable public static func inbox(
        _ ordinal: Ordinal, _ sequence: MessageSequence, in project: ProjectNumber
    ) -> Key {
        var key = Key.ordinal(ordinal, in: project)
        key.append(sequence.rawValue)
        return key
    }

    @inlinable public static func topic(_ number: TopicNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    @inlinable public static func block(_ block: UInt32, of set: UInt32, in project: ProjectNumber)
        -> Key
    {
        var key = Key(project)
        key.append(set)
        key.append(block)
        return key
    }

    @inlinable public static func expiryLine(of project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: 0)
        return key
    }

    /// - Parameter day: since 1970-01-01, UTC.
    @inlinable public static func reportDay(_ day: UInt32, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(~day)
        return key
    }

    @inlinable public static func reportDay(
        _ day: UInt32, _ app: AppNumber, in project: ProjectNumber
    ) -> Key {
        var key = Key.reportDay(day, in: project)
        key.append(app.rawValue)
        return key
    }

    @inlinable public static func missed(
        _ block: UInt32, of sequence: MessageSequence, in project: ProjectNumber
    ) -> Key {
        var key = Key.sequence(sequence, in: project)
        key.append(block)
        return key
    }

    package static func topicName(_ name: String, in project: ProjectNumber) -> Key {
        var key = Key(project)
        let bytes = Array(name.utf8)
        guard bytes.count > nameBytesMax else {
            key.append(name: bytes)
            return key
        }
        key.append(name: bytes.prefix(nameBytesMax))
        key.append(name: SHA256.hash(data: bytes))
        return key
    }

    @inlinable public static func group(_ group: GroupKey, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: group.bytes)
        return key
    }

    @inlinable public static func groupName(_ name: String, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: name.utf8)
        return key
    }

    @inlinable public static func membership(
        _ ordinal: Ordinal, _ group: GroupKey, in project: ProjectNumber
    ) -> Key {
        var key = Key.ordinal(ordinal, in: project)
        key.append(name: group.bytes)
        return key
    }

    @inlinable public static func app(_ number: AppNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    @inlinable public static func appName(
        _ name: String, _ platform: Platform, in project: ProjectNumber
    )
        -> Key
    {
        var key = Key(project)
        key.append(byte: platform.rawValue)
        key.append(name: name.utf8)
        return key
    }

    package static func free(_ kind: FreeNumberKind, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: kind.rawValue)
        return key
    }
}
