// SPDX-License-Identifier: Apache-2.0
//
// Every table, key and value of the store. Keys are big-endian, so the order of keys is the order of the numbers in
// them. Values are little-endian. p = project number (u32), o = ordinal (u32), t = topic number (u32), s = message
// sequence (u64).
//
//  table           key                        value
//  ──────────────  ─────────────────────────  ──────────────────────────────────────────────────────
//  meta            "format"                   u32 format version
//                  "projects"                 u32 next project number
//                  "run"                      the broker's run (`RunRow`)
//                  "position"                 the store's place in its log (`LogPosition`)
//  projects        p                          project record
//                  p ‖ u8 0                   messages that expire in the order of their sequences
//                                             (`ExpiryLineRow`)
//                  p ‖ ~day u32 ‖ app u32     counts of a day, the newest day first: beside the project's
//                                             record, since both change with each message
//  projectIDs      ID                         u32 p
//  keys            key ID                     server key record
//  apps            p ‖ app number u32         u8 platform ‖ name
//  appNames        p ‖ u8 platform ‖ name     u32 app number
//  deletedApps     p ‖ app number             i64 end of the deletion; 0: instances of the app are left
//  tokens          token (24 bytes)           u32 p ‖ u32 o
//  formerTokens    token (24 bytes)           u32 p ‖ u32 o; earlier tokens, still valid for the device
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
//  mailboxes       p ‖ o                      state of the mailbox (`MailboxRow`)
//  connections     p ‖ o                      u64 s at the beginning ‖ u64 number of the connection ‖ u32 run
//  runs            p ‖ run u32                u64 s ‖ i64: where connections of earlier runs ended
//  acknowledged    p ‖ o ‖ s                  empty: acknowledged, but above the lowest mark; or
//                                             u8 1: no entry of the instance's log any more
//  free            p ‖ u8 kind ‖ number u32   empty; ordinals, topic and app numbers to use again
//  due             u8 kind ‖ u64 ms ‖ p ‖ id  empty; work that is due at a time (`DueKind`)
//  answers         p ‖ digest (16 bytes)      answer record, by the digest of an idempotency key
//  scheduled       p                          u64 count
//                  p ‖ message number u64     i64 due ‖ message in the engine's encoding
//  deferred        p                          u64 count
//                  p ‖ message number u64     i64 begin of the life ‖ message in the engine's encoding
//  numbers         p ‖ message number u64     u64 s; messages whose number is not their sequence
//  receiptsWanted  p ‖ s                      i64 expires ‖ u64 message number [‖ for each recipient: u32 o ‖
//                                             8 bytes of the device key's digest; absent for many]
//  receiptsTold    p ‖ o ‖ s                  i64 expires ‖ u8 bits, one for each kind of receipt
//  collections     p                          state of the collection of fanouts (`CollectionRow`)
//  live            p ‖ s [‖ 1]                empty; a fanout that an instance was found to need
//  receipts        p                          u64 number of the last event ‖ u64 last number taken
//                  p ‖ event number u64       event in the engine's encoding
//  upstream        p                          u64 number of the last message ‖ u64 count
//                  p ‖ number u64             i64 expires ‖ message in the engine's encoding
//  upstreamIDs     p ‖ o                      i64 due ‖ for each of the last message IDs, the oldest first:
//                                             digest (16 bytes) ‖ i64 known until ‖ u64 number
//  reports         p ‖ s                      counts of a message (`ReportRow`)
//  reportNumbers   p ‖ message number u64     u64 s; reports whose number is not their sequence
//  missed          p ‖ s ‖ block u32          one block of the instances that will not get the message
//  closings        p ‖ s                      u32: next block of recipients to look at, after the expiry
//  serviceAccounts key ID                     service-account key record: p ‖ u32 revoked ‖ i64 created ‖
//                                             text name ‖ text e-mail ‖ public key
//  policies        p                          u8 registration ‖ u8 topics ‖ text of each prefix
//  registrationKeys  p ‖ key ID               u32 revoked ‖ i64 created ‖ digest (32 bytes) ‖ text name
//  ticketKeys      p ‖ key ID                 u32 revoked ‖ i64 created ‖ u8 algorithm ‖ text name ‖ secret or
//                                             public key
//  spentTickets    p ‖ digest (32 bytes)      i64 expires; tickets that were used, until they expire
//  topicGrants     p ‖ o                      text of each topic that the instance's ticket allows
//  agents          p ‖ SHA-256 of a user      u32 o; the channels of Web Push user agents
//                  agent's ID ‖ channel (16 bytes)
//  agentChannels   p ‖ o                      SHA-256 of the user agent's ID ‖ channel
//  bridges         p ‖ o                      where a foreign push service reaches the instance (`BridgeRow`)
//  bridgeDigests   p ‖ SHA-256 of an address  u32 o
//  bridgeKeys      p ‖ u8 kind ‖ key ID       a project's key for a push service (`BridgeKeyRow`)
//  refusals        p ‖ s ‖ u8 kind ‖ reason   u64 count; why a push service refused a message
//
// If a message was discarded for some recipients, these have a row of their own in `messages`. The key of that row
// has the message's sequence and one more byte, so the row comes directly behind the row of the message.
//
// Blocks of a set. An ordinal's block is its upper 17 bits. A value of 4080 bytes is a bitmap: with LMDB's page
// header it fills exactly one overflow page. Any other even number of bytes is a sorted list of at most 500 bit
// positions (u16). An odd number of bytes is a span (`RunSpan`): the runs of sixteen blocks in one row, under the
// number of the first block, a multiple of 16. Then none of the sixteen blocks has a row of its own. A topic of at
// most 2044 subscribers has one row only, under the block number 0xFFFFFFFF: a sorted list of u32 ordinals, read in
// one piece instead of a row per block.
//
// Neighbouring members are a run: all instances, the instances of an app, the instances that registered in one
// campaign. Half a million of them are one row of 127 bytes instead of sixteen bitmap pages: 32 bytes of ends, two
// toggles of 2 bytes for each of the sixteen blocks, 31 zeros.
//
// LMDB's keys have at most 511 bytes, and topic names up to 900. The key of a name of more than 440 bytes is its
// first 440 bytes and the SHA-256 of the whole name; the value has the name.

import MartletCrypto
public import MartletBase

/// The version of the tables, keys and values above. A change of their bytes raises it, and needs a `MigrationStep`.
package let storeFormatVersion: UInt32 = 13

/// The tables, in the order in which they are opened.
public enum Table: Int, CaseIterable, Sendable {
    case meta, projects, projectIDs, keys, apps, appNames, tokens, instances, topics, topicNames
    case sets, instanceTopics, messages, recipients, inbox, mailboxes, acknowledged, free
    case due, answers, scheduled, numbers, receiptsWanted, receiptsTold, receipts
    case collections, live, connections, runs, deferred, upstream, upstreamIDs
    case groups, groupNames, instanceGroups, formerTokens
    case reports, reportNumbers, missed, closings
    case serviceAccounts
    case policies, registrationKeys, ticketKeys, spentTickets, topicGrants, deletedApps
    case agents, agentChannels
    case bridges, bridgeDigests, bridgeKeys, refusals

    /// The name of the table in the store.
    public var name: String { String(describing: self) }
}

/// Numbers of sets and bounds of their forms. The upper four bits of a set's number are 0 for a topic, and the kind
/// for the other sets.
package enum SetKey {
    package static let smallTopicBlock: UInt32 = 0xFFFF_FFFF
    /// Members above which a topic's list becomes blocks: 2044 × 4 bytes and LMDB's page header are exactly two
    /// pages. At half of this bound, blocks become a list again.
    package static let smallTopicMembersMax = 2044
    /// Members above which a block's list becomes a bitmap: the list then has a quarter of the bitmap's bytes.
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

/// The kinds of rows in `due`. The time in the key is when the row is due, except for `.seen`, `.report`,
/// `.reportDay` and `.deletedApp`: their rows are due a configured time later.
package enum DueKind: UInt8, CaseIterable {
    /// id = s: the message expires. Messages of the expiry line have no such row.
    case expiry = 1
    /// id = s: the recipients for whom the message was discarded are not told of the discard any more.
    case discarded = 2
    /// id = o; time = when the instance was last connected. Each instance outside the inactive set has such a row.
    case seen = 3
    /// id = digest: the answer to the idempotency key is forgotten.
    case answer = 4
    /// id = message number: the message is to be sent. The engine handles these rows, not the sweep.
    case scheduled = 5
    /// id = s: receipts of the message are not wanted any more.
    case receiptsWanted = 6
    /// id = o ‖ s: the instance's receipts of the message are forgotten.
    case receiptsTold = 7
    /// id = o; time = 0: the instance's inbox has many rows of replaced messages.
    case settlement = 8
    /// No id: the next step of the project's collection of fanouts.
    case collection = 9
    /// No id; time = 0: senders have taken events that are not deleted yet.
    case receiptsTaken = 10
    /// id = number: the upstream message expires.
    case upstream = 11
    /// id = o: some message IDs of the instance are not known any more.
    case upstreamIDs = 12
    /// id = s; time = when the message was accepted. The row of the project's oldest report, which is removed after
    /// `reportSeconds`.
    case report = 13
    /// id = the day; time = when the day began. The counts of the day are removed after `reportDaysMax` days.
    case reportDay = 14
    /// No id: the first message of the project's expiry line may have expired.
    case expiryLine = 15
    /// id = app number; time = 0: instances of the deleted app are left. The engine handles these rows.
    case leavingApp = 16
    /// id = app number; time = when the last instance had left. The app's number is free after `reportDaysMax` days,
    /// because daily counts name the app until then.
    case deletedApp = 17
    /// id = digest: the used ticket has expired and is forgotten.
    case ticket = 18
}

/// The value of an inbox row. No bytes: a message. One byte: the message was discarded. Eight bytes: the digest of
/// the collapse key of a message for this instance alone (0: the app's key). Nine bytes: such a message that was
/// replaced.
package enum InboxRow {
    package static let message: [UInt8] = []
    package static let discarded: [UInt8] = [1]

    package static func collapsible(_ digest: UInt64) -> [UInt8] {
        withUnsafeBytes(of: digest.littleEndian) { Array($0) }
    }

    /// The value of a collapsible message that a later message has replaced.
    package static func replaced(_ digest: UInt64) -> [UInt8] { collapsible(digest) + [1] }

    package static func row(_ sequence: MessageSequence, _ value: UnsafeRawBufferPointer) -> LogRow
    {
        LogRow(sequence, isDiscarded: value.count == 1)
    }

    /// Whether a later message has replaced the message.
    package static func isReplaced(_ value: UnsafeRawBufferPointer) -> Bool { value.count == 9 }

    /// The digest of the collapse key; nil for a message that is not collapsible, or was replaced.
    package static func digest(_ value: UnsafeRawBufferPointer) -> UInt64? {
        value.count == 8 ? value.loadLittleEndian(UInt64.self, at: 0) : nil
    }
}

/// A row of the log: a message, or the recipients for whom the message was discarded.
package struct LogRow: Hashable {
    package var sequence: MessageSequence
    package var isDiscarded = false

    package init(_ sequence: MessageSequence, isDiscarded: Bool = false) {
        self.sequence = sequence
        self.isDiscarded = isDiscarded
    }

    /// Reads a key of `messages` or `recipients`.
    package init(_ key: RowKey) {
        sequence = key.sequence
        isDiscarded = key.count == 13
    }
}

/// The first 16 bytes of the SHA-256 of an idempotency key, or of the message ID of a device.
package struct AnswerDigest: Hashable {
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }
    package init(of key: String) { bytes = Array(SHA256.hash(Array(key.utf8)).prefix(16)) }
}

/// A key of at most 511 bytes under construction. A key without a name fits into `short`, so its construction needs
/// no allocation.
public struct Key: Sendable {
    @usableFromInline static let nameBytesMax = 440
    @usableFromInline static let shortBytesMax = 32

    @usableFromInline var short: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    /// Bytes of the key so far.
    public var count = 0
    /// All bytes, if they do not fit into `short`.
    @usableFromInline var long: [UInt8] = []

    /// Makes a key without bytes.
    @inlinable public init() {}
    /// Makes the start of a key of the project's rows: p.
    @inlinable public init(_ project: ProjectNumber) { append(project.rawValue) }
    /// Makes a key of the given bytes.
    @inlinable public init(bytes: [UInt8]) { append(name: bytes) }

    /// A key of the token's 24 bytes.
    @inlinable public init(_ token: Token) {
        appendInteger(token.words.0.littleEndian)
        appendInteger(token.words.1.littleEndian)
        appendInteger(token.words.2.littleEndian)
    }

    /// Copy of all bytes of the key.
    @inlinable public var bytes: [UInt8] { withBytes { Array($0) } }

    /// Calls `body` with the bytes of the key. The bytes are valid only in the call.
    /// - Throws: the error of `body`.
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

    /// Appends a number of four bytes, big-endian.
    @inlinable public mutating func append(_ value: UInt32) { appendInteger(value.bigEndian) }
    /// Appends a number of eight bytes, big-endian.
    @inlinable public mutating func append(_ value: UInt64) { appendInteger(value.bigEndian) }
    /// Appends one byte.
    @inlinable public mutating func append(byte: UInt8) { appendInteger(byte) }

    /// Appends the bytes of a name.
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

    /// Key of an instance: p ‖ o.
    @inlinable public static func ordinal(_ ordinal: Ordinal, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(ordinal.rawValue)
        return key
    }

    /// Key of a message: p ‖ s.
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

    /// Key of a number of eight bytes: p ‖ number.
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

    /// Key of a recipient's inbox row, and of a single acknowledgement: p ‖ o ‖ s.
    @inlinable public static func inbox(
        _ ordinal: Ordinal, _ sequence: MessageSequence, in project: ProjectNumber
    ) -> Key {
        var key = Key.ordinal(ordinal, in: project)
        key.append(sequence.rawValue)
        return key
    }

    /// Key of a topic: p ‖ t.
    @inlinable public static func topic(_ number: TopicNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    /// Key of a block of a set: p ‖ set ‖ block.
    @inlinable public static func block(_ block: UInt32, of set: UInt32, in project: ProjectNumber)
        -> Key
    {
        var key = Key(project)
        key.append(set)
        key.append(block)
        return key
    }

    /// Key of the project's expiry line (`ExpiryLineRow`): p ‖ u8 0.
    @inlinable public static func expiryLine(of project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: 0)
        return key
    }

    /// Start of the keys of a day's counts: p ‖ ~day. The newest day has the lowest key.
    /// - Parameter day: days since 1970-01-01, UTC.
    @inlinable public static func reportDay(_ day: UInt32, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(~day)
        return key
    }

    /// Key of an app's counts of a day: p ‖ ~day ‖ app number.
    @inlinable public static func reportDay(
        _ day: UInt32, _ app: AppNumber, in project: ProjectNumber
    ) -> Key {
        var key = Key.reportDay(day, in: project)
        key.append(app.rawValue)
        return key
    }

    /// Key of a block of the instances that do not get a message: p ‖ s ‖ block.
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
        key.append(name: SHA256.hash(bytes))
        return key
    }

    /// Key of a group: p ‖ notification key.
    @inlinable public static func group(_ group: GroupKey, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: group.bytes)
        return key
    }

    /// Key of the index of group names: p ‖ name.
    @inlinable public static func groupName(_ name: String, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: name.utf8)
        return key
    }

    /// Key of a membership of an instance: p ‖ o ‖ notification key.
    @inlinable public static func membership(
        _ ordinal: Ordinal, _ group: GroupKey, in project: ProjectNumber
    ) -> Key {
        var key = Key.ordinal(ordinal, in: project)
        key.append(name: group.bytes)
        return key
    }

    /// Key of an app: p ‖ app number.
    @inlinable public static func app(_ number: AppNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    /// Key of the index of app names: p ‖ u8 platform ‖ name.
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
