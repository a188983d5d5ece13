// SPDX-License-Identifier: Apache-2.0
//
// Damages one index at a time, by LMDB itself and past the store, and sees that a check finds this
// problem and no other. Keys and values are written out as bytes here: the test has its own picture
// of the format, so a changed format fails it. Rests on CLMDB.

import CLMDB
import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

/// Puts and deletes rows of a closed store.
struct RawStore {
    let folder: String

    /// A nil value deletes.
    func change(_ table: String, _ key: [UInt8], _ value: [UInt8]?) throws {
        try open { transaction, handle in
            key.withUnsafeBytes { key in
                var rawKey = MDB_val(
                    mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
                guard let value else { return mdb_del(transaction, handle, &rawKey, nil) }
                return value.withUnsafeBytes { value in
                    var rawValue = MDB_val(
                        mv_size: value.count,
                        mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
                    return mdb_put(transaction, handle, &rawKey, &rawValue, 0)
                }
            }
        } table: {
            table
        }
    }

    func get(_ table: String, _ key: [UInt8]) throws -> [UInt8]? {
        var found: [UInt8]?
        try open { transaction, handle in
            key.withUnsafeBytes { key in
                var rawKey = MDB_val(
                    mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
                var rawValue = MDB_val()
                let code = mdb_get(transaction, handle, &rawKey, &rawValue)
                guard code == 0 else { return code == MDB_NOTFOUND ? 0 : code }
                found = Array(
                    UnsafeRawBufferPointer(start: rawValue.mv_data, count: rawValue.mv_size))
                return 0
            }
        } table: {
            table
        }
        return found
    }

    func drop(_ table: String) throws {
        try open { transaction, handle in
            mdb_drop(transaction, handle, 1)
        } table: {
            table
        }
    }

    /// Entries of a table.
    func count(_ table: String) throws -> Int {
        var statistics = MDB_stat()
        try open { transaction, handle in
            mdb_stat(transaction, handle, &statistics)
        } table: {
            table
        }
        return statistics.ms_entries
    }

    /// Everything in it: values by the table's name and the key.
    func rows() throws -> [String: [[UInt8]: [UInt8]]] {
        func entries(_ transaction: OpaquePointer?, _ handle: MDB_dbi) -> [[UInt8]: [UInt8]] {
            var entries: [[UInt8]: [UInt8]] = [:]
            var cursor: OpaquePointer?
            guard mdb_cursor_open(transaction, handle, &cursor) == 0 else { return [:] }
            defer { mdb_cursor_close(cursor) }
            var (key, value) = (MDB_val(), MDB_val())
            while mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 {
                entries[Array(UnsafeRawBufferPointer(start: key.mv_data, count: key.mv_size))] =
                    Array(UnsafeRawBufferPointer(start: value.mv_data, count: value.mv_size))
            }
            return entries
        }
        var rows: [String: [[UInt8]: [UInt8]]] = [:]
        try open { transaction, handle in
            for name in entries(transaction, handle).keys {
                let table = String(decoding: name, as: UTF8.self)
                var handle: MDB_dbi = 0
                let code = mdb_dbi_open(transaction, table, 0, &handle)
                guard code == 0 else { return code }
                rows[table] = entries(transaction, handle)
            }
            return 0
        } table: {
            nil
        }
        return rows
    }

    struct Failure: Error { let code: Int32 }

    private func open(
        _ body: (OpaquePointer?, MDB_dbi) -> Int32, table: () -> String?
    ) throws {
        // The journal of a store that was closed says nothing, and would undo what is changed here.
        for name in ["journal.0", "journal.1"] { unlink(folder + "/" + name) }
        var environment: OpaquePointer?
        func check(_ code: Int32) throws { if code != 0 { throw Failure(code: code) } }
        try check(mdb_env_create(&environment))
        defer { mdb_env_close(environment) }
        try check(mdb_env_set_maxdbs(environment, 64))
        try check(mdb_env_set_mapsize(environment, 1 << 28))
        try check(mdb_env_open(environment, folder, 0, 0o600))
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, 0, &transaction))
        var handle: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, table(), 0, &handle))
        let code = body(transaction, handle)
        try check(mdb_txn_commit(transaction))
        try check(code)
    }
}

func big(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { Array($0) }
}

/// One way of damaging the store below.
struct Damage: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let table: String
    let key: [UInt8]
    let change: Change
    let expected: [CheckProblem.Kind]

    /// What is made of the row's value (empty if there is none).
    enum Change: Sendable {
        case delete, keep, zero, swapFirstWords
        case put([UInt8])
        case patch(Int, [UInt8])
        case insert(Int, [UInt8])
        case append([UInt8])
        case prefix(Int)
        case dropLast(Int)
        case setBit(Int)
        case clearBit(Int)

        func result(_ value: [UInt8]) -> [UInt8]? {
            var new = value
            switch self {
            case .delete: return nil
            case .keep: break
            case .zero: new = [UInt8](repeating: 0, count: value.count)
            case .swapFirstWords: for index in 0..<4 { new.swapAt(index, index + 4) }
            case .put(let bytes): new = bytes
            case .patch(let at, let bytes):
                new.replaceSubrange(at..<(at + bytes.count), with: bytes)
            case .insert(let at, let bytes): new.insert(contentsOf: bytes, at: at)
            case .append(let bytes): new += bytes
            case .prefix(let count): new = Array(value.prefix(count))
            case .dropLast(let count): new = Array(value.dropLast(count))
            case .setBit(let bit): new[bit / 8] |= 1 << UInt8(bit % 8)
            case .clearBit(let bit): new[bit / 8] &= ~(1 << UInt8(bit % 8))
            }
            return new
        }
    }

    init(
        _ description: String, _ table: String, _ key: [UInt8], _ expected: [CheckProblem.Kind],
        _ change: Change
    ) {
        testDescription = description
        self.table = table
        self.key = key
        self.expected = expected
        self.change = change
    }

    private static let p0 = big(0 as UInt32)
    private static func o(_ ordinal: UInt32) -> [UInt8] { p0 + big(ordinal) }
    private static func set(_ number: UInt32, _ block: UInt32) -> [UInt8] {
        p0 + big(number) + big(block)
    }
    private static let small: UInt32 = .max
    static let group = [UInt8](repeating: 7, count: 24)

    /// The store is `CheckTests.fill`: ordinals 0 ..< 700 of which 5 and 6 have left; topic 0 "all"
    /// of everyone (one bitmap), topic 1 "few" of 0 ..< 10 without 5 and 6 (a list of ordinals),
    /// topic 2 free, topic 3 "some" of 0 ..< 460 without those (a list of a block); messages 3 to
    /// "few" (inbox), 4 to "all" (a blob), 5 to ordinal 0; ordinal 0 has acknowledged 3 and,
    /// singly, 5. The two that left took the numbers 1 and 2. Ordinal 20 has another token than at
    /// first.
    /// A group "g" has 0, 1 and 2 as members.
    static let all: [Damage] = [
        Damage("no format", "meta", Array("format".utf8), [], .keep),
        Damage(
            "next project too low", "meta", Array("projects".utf8), [.projectCounter],
            .put(little(1 as UInt32))),
        Damage("project ID gone", "projectIDs", Array("tides".utf8), [.projectIndex], .delete),
        Damage(
            "project ID of nothing", "projectIDs", Array("ghost".utf8), [.projectIndex],
            .put(little(9 as UInt32))),
        Damage(
            "project record cut off", "projects", big(1 as UInt32),
            [.damagedRecord, .projectIndex, .rowsWithoutProject], .prefix(20)),
        Damage(
            "limit of a project cut off", "projects", big(1 as UInt32),
            [.damagedRecord, .projectIndex, .rowsWithoutProject], .prefix(80)),
        Damage(
            "limit of a project out of bounds", "projects", big(1 as UInt32),
            [.damagedRecord, .projectIndex, .rowsWithoutProject], .patch(77, little(0 as UInt32))),
        Damage(
            "limit that no project has", "projects", big(1 as UInt32),
            [.damagedRecord, .projectIndex, .rowsWithoutProject], .patch(76, [99])),
        Damage(
            "instance count", "projects", p0, [.projectCounter], .patch(16, little(697 as UInt64))),
        Damage(
            "topic count of a project", "projects", p0, [.projectCounter],
            .patch(24, little(4 as UInt64))),
        Damage(
            "count of reports", "projects", p0, [.report], .patch(49, little(9 as UInt64))),
        Damage(
            "count of apps", "projects", p0, [.projectCounter], .patch(65, little(2 as UInt32))),
        Damage("policies cut off", "policies", p0, [.damagedRecord], .prefix(1)),
        Damage(
            "used ticket that is never forgotten", "spentTickets",
            p0 + [UInt8](repeating: 7, count: 32), [.due], .put(little(5 as Int64))),
        Damage(
            "topics of a ticket of an instance that left", "topicGrants", o(5), [.registration],
            .put([1, 0, 97])),
        Damage(
            "deleted app with instances", "deletedApps", p0 + big(0 as UInt32),
            [.registration, .due, .projectCounter], .put(little(5 as Int64))),
        Damage(
            "deleted app that never was", "deletedApps", p0 + big(9 as UInt32),
            [.registration, .due], .put(little(0 as Int64))),
        Damage(
            "a day of no project", "projects",
            big(9 as UInt32) + big(~20_000 as UInt32) + big(0 as UInt32),
            [.rowsWithoutProject], .put([0])),
        Damage(
            "last sequence too low", "projects", p0, [.messageSequence, .acknowledgement],
            .patch(8, little(4 as UInt64))),
        Damage(
            "next ordinal too low", "projects", p0, [.projectCounter, .recipients],
            .patch(32, little(699 as UInt32))),
        Damage(
            "next ordinal too high", "projects", p0, [.numberLost],
            .patch(32, little(701 as UInt32))),
        Damage(
            "next topic too high", "projects", p0, [.numberLost], .patch(36, little(5 as UInt32))),
        Damage(
            "key of no project", "keys", Array("key".utf8), [.keyWithoutProject],
            .patch(0, little(7 as UInt32))),
        Damage("key cut off", "keys", Array("key".utf8), [.damagedRecord], .prefix(30)),
        Damage(
            "app name gone", "appNames", p0 + [1] + Array("com.example.tides".utf8), [.appIndex],
            .delete),
        Damage(
            "app name of nothing", "appNames", p0 + [2] + Array("com.ghost".utf8), [.appIndex],
            .put(little(0 as UInt32))),
        Damage("token gone", "tokens", [], [.tokenIndex], .delete),
        Damage(
            "token elsewhere", "tokens", [], [.tokenIndex, .tokenIndex],
            .put(little(0 as UInt32) + little(8 as UInt32))),
        Damage("former token gone", "formerTokens", [], [.tokenIndex], .delete),
        Damage(
            "former token elsewhere", "formerTokens", [], [.tokenIndex, .tokenIndex],
            .put(little(0 as UInt32) + little(9 as UInt32))),
        Damage("former token cut off", "instances", o(20), [.damagedRecord], .dropLast(1)),
        Damage("former token forgotten", "instances", o(20), [.tokenIndex], .dropLast(24)),
        Damage(
            "instance of another app", "instances", o(9),
            [.instanceWithoutApp, .standingSet, .standingSet], .patch(64, little(3 as UInt32))),
        Damage(
            "unknown platform", "instances", o(9), [.damagedRecord],
            .patch(68, little(77 as UInt32))),
        Damage("topic count", "topics", o(1), [.topicCount], .patch(0, little(9 as UInt64))),
        Damage("topic name gone", "topicNames", p0 + Array("few".utf8), [.topicIndex], .delete),
        Damage(
            "topic name of nothing", "topicNames", p0 + Array("ghost".utf8), [.topicIndex],
            .put(little(2 as UInt32) + Array("ghost".utf8))),
        Damage(
            "topic with a bad name", "topics", o(1), [.damagedRecord, .topicIndex],
            .patch(8, Array("f w".utf8))),
        Damage(
            "a subscriber more than its list says", "sets", set(1, small),
            [.topicCount, .reverseIndex], .append(little(20 as UInt32))),
        Damage(
            "a subscriber less than its list says", "sets", set(1, small),
            [.topicCount, .reverseIndex], .dropLast(4)),
        Damage(
            "a subscriber who left", "sets", set(1, small),
            [.topicCount, .subscriberNotRegistered], .insert(20, little(5 as UInt32))),
        Damage(
            "unsorted list of ordinals", "sets", set(1, small), [.setForm],
            .swapFirstWords),
        Damage("list of a block, odd", "sets", set(3, 0), [.setForm], .append([0])),
        Damage(
            "list of a block, past the block", "sets", set(3, 0), [.setForm],
            .append(little(32_640 as UInt16))),
        Damage("bitmap past the block's bytes", "sets", set(0, 0), [.setForm], .append([0, 0])),
        Damage("empty bitmap", "sets", set(0, 0), [.setForm], .zero),
        Damage("both forms", "sets", set(3, small), [.setForm], .put(little(0 as UInt32))),
        Damage(
            "set of no topic", "sets", set(2, small), [.setWithoutOwner, .reverseIndex],
            .put(little(0 as UInt32))),
        Damage(
            "set of no kind", "sets", set(0xC000_0000, 0), [.setWithoutOwner],
            .put(little(0 as UInt16))),
        // Everyone is a span of runs: 32 bytes of ends, then 0, 5, 7 and 700.
        Damage(
            "everyone without one", "sets", set(0x8000_0000, 0), [.standingSet],
            .patch(32, little(1 as UInt16))),
        Damage(
            "everyone with one who left", "sets", set(0x8000_0000, 0), [.standingSet],
            .patch(34, little(6 as UInt16))),
        Damage("span cut off", "sets", set(0x8000_0000, 0), [.setForm], .dropLast(2)),
        Damage(
            "span with half a run", "sets", set(0x8000_0000, 0), [.setForm],
            .patch(0, little(3 as UInt16))),
        Damage(
            "span whose runs do not ascend", "sets", set(0x8000_0000, 0), [.setForm],
            .patch(34, little(8 as UInt16))),
        Damage(
            "span past a block", "sets", set(0x8000_0000, 0), [.setForm],
            .patch(38, little(32_641 as UInt16))),
        Damage(
            "block beside its span", "sets", set(0x8000_0000, 15), [.setForm],
            .put(little(0 as UInt16))),
        Damage(
            "span that begins between others", "sets", set(0x8000_0000, 16 + 1), [.setForm],
            .put([UInt8](repeating: 0, count: 63))),
        Damage("platform gone", "sets", set(0x9000_0001, 0), [.standingSet], .delete),
        Damage(
            "app without one", "sets", set(0xA000_0000, 0), [.standingSet],
            .patch(32, little(1 as UInt16))),
        Damage(
            "reverse index without a topic", "instanceTopics", o(9), [.reverseIndex], .prefix(4)),
        Damage("reverse index gone", "instanceTopics", o(699), [.reverseIndex], .delete),
        Damage(
            "reverse index of one who left", "instanceTopics", o(5), [.reverseIndex],
            .put(little(0 as UInt32))),
        Damage(
            "reverse index with an ended topic", "instanceTopics", o(699), [.reverseIndex],
            .append(little(2 as UInt32))),
        Damage("group name gone", "groupNames", p0 + Array("g".utf8), [.groupIndex], .delete),
        Damage(
            "group name of another group", "groupNames", p0 + Array("ghost".utf8), [.groupIndex],
            .put(group)),
        Damage(
            "group name cut off", "groupNames", p0 + Array("g".utf8),
            [.damagedRecord, .groupIndex], .prefix(23)),
        Damage(
            "group's member without it in its list", "instanceGroups", o(1) + group, [.groupIndex],
            .delete),
        Damage(
            "group in the list of one who is no member", "instanceGroups", o(9) + group,
            [.groupIndex], .keep),
        Damage(
            "group's member who left", "groups", p0 + group, [.group, .groupIndex],
            .patch(7, little(5 as UInt32))),
        Damage(
            "group's member twice", "groups", p0 + group, [.group], .append(little(1 as UInt32))),
        Damage(
            "group without members", "groups", p0 + group, [.group, .groupIndex], .prefix(3)),
        Damage("group cut off", "groups", p0 + group, [.damagedRecord], .dropLast(1)),
        Damage("group gone", "groups", p0 + group, [.groupIndex], .delete),
        Damage(
            "message that waits, of no project", "deferred", big(9 as UInt32),
            [.rowsWithoutProject], .put(little(0 as UInt64))),
        Damage("free ordinal in use", "free", p0 + [1] + big(9 as UInt32), [.freeNumber], .keep),
        Damage(
            "free ordinal never issued", "free", p0 + [1] + big(700 as UInt32), [.freeNumber], .keep
        ),
        Damage("free topic in use", "free", p0 + [2] + big(1 as UInt32), [.freeNumber], .keep),
        Damage("free ordinal lost", "free", p0 + [1] + big(5 as UInt32), [.numberLost], .delete),
        Damage("free topic lost", "free", p0 + [2] + big(2 as UInt32), [.numberLost], .delete),
        Damage("free of no kind", "free", p0 + [4] + big(2 as UInt32), [.damagedRecord], .keep),
        Damage("message cut off", "messages", p0 + big(5 as UInt64), [.damagedRecord], .prefix(25)),
        Damage("message gone", "messages", p0 + big(5 as UInt64), [.inbox], .delete),
        Damage(
            "message with a blob gone", "messages", p0 + big(4 as UInt64),
            [.recipients, .report],
            .delete),
        Damage("expiry line gone", "projects", p0 + [0], [.due], .delete),
        Damage("expiry line cut off", "projects", p0 + [0], [.damagedRecord], .prefix(20)),
        Damage(
            "expiry line that begins behind a message", "projects", p0 + [0], [.due],
            .patch(0, little(6 as UInt64))),
        Damage(
            "expiry line due at another time", "projects", p0 + [0], [.due],
            .patch(8, little(2 as UInt64))),
        Damage(
            "expiry line that ends before a message", "projects", p0 + [0], [.due],
            .patch(16, little(0 as UInt64))),
        Damage(
            "message never issued", "messages", p0 + big(6 as UInt64), [.messageSequence, .due],
            .put(
                [UInt8](repeating: 0, count: 12) + [1, 1, 0, 0] + little(0 as UInt64) + [
                    0, 0, 0, 0, 7, 1,
                ])),
        Damage("blob gone", "recipients", p0 + big(4 as UInt64), [.recipients], .delete),
        Damage("blob cut off", "recipients", p0 + big(4 as UInt64), [.recipients], .dropLast(8)),
        Damage(
            "blob with a bit more", "recipients", p0 + big(4 as UInt64), [.recipients],
            .setBit(48 * 8 + 5)),
        Damage("inbox of one who left", "inbox", o(5) + big(3 as UInt64), [.inbox], .keep),
        Damage("inbox without message", "inbox", o(9) + big(77 as UInt64), [.inbox], .keep),
        Damage("inbox beside a blob", "inbox", o(9) + big(4 as UInt64), [.inbox], .keep),
        Damage(
            "mailbox of one who left", "mailboxes", o(5), [.mailbox],
            .put(little(1 as UInt64) + little(0 as UInt64))),
        Damage(
            "mailbox past the last message", "mailboxes", o(9), [.mailbox, .report],
            .patch(0, little(6 as UInt64))),
        Damage("mailbox cut off", "mailboxes", o(9), [.damagedRecord], .put([1, 2])),
        Damage("mailbox gone", "mailboxes", o(9), [.mailbox, .due, .report], .delete),
        Damage(
            "connection of one who left", "connections", o(5), [.mailbox],
            .put([UInt8](repeating: 0, count: 20))),
        Damage("connection cut off", "connections", o(9), [.damagedRecord], .put([1, 2])),
        Damage("seen at another time", "mailboxes", o(9), [.due], .patch(8, little(2 as UInt64))),
        Damage(
            "number of another message's report", "reportNumbers", p0 + big(77 as UInt64),
            [.report], .put(little(4 as UInt64))),
        Damage(
            "number of no report", "reportNumbers", p0 + big(77 as UInt64), [.report],
            .put(little(99 as UInt64))),
        Damage(
            "number of a report cut off", "reportNumbers", p0 + big(77 as UInt64),
            [.damagedRecord], .put([4])),
        Damage(
            "acknowledged below the lowest mark", "acknowledged", o(0) + big(3 as UInt64),
            [.acknowledgement], .keep),
        Damage(
            "acknowledged by one who left", "acknowledged", o(5) + big(4 as UInt64),
            [.acknowledgement], .keep),
        Damage(
            "rows of no project", "mailboxes", big(9 as UInt32) + big(0 as UInt32),
            [.rowsWithoutProject], .put(little(1 as UInt64))),
        Damage("key too short", "instances", p0 + [1], [.damagedRecord], .put([])),
    ]
}

@Suite("Check")
struct CheckTests {
    /// See `Damage.all`.
    static func fill(_ bench: StoredBench) throws -> [Instance] {
        let project = try bench.project("tides")
        try bench.project("other")
        _ = try bench.apply(
            .changeRegistry(
                project: "other", .limits([ProjectLimitChange(.groupMembers, to: 5)])))
        let instances = try bench.register(700, in: "tides")
        _ = try bench.apply(
            .createKey(
                project: "tides",
                key: NewKey(
                    id: "key", name: "a key",
                    digest: SecretDigest(bytes: [UInt8](repeating: 1, count: 32)))))
        try bench.change(.subscribe, "all", instances, in: project)
        try bench.change(.subscribe, "few", instances[..<10], in: project)
        try bench.change(.subscribe, "gone", instances[..<10], in: project)
        try bench.change(.subscribe, "some", instances[..<460], in: project)
        try bench.change(.unsubscribe, "gone", instances[..<10], in: project)
        for instance in instances[5...6] {
            _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
        }
        _ = try bench.apply(
            .createGroup(
                project: project, name: "g", key: GroupKey(bytes: Damage.group),
                tokens: instances[..<3].map(\.token.text)))
        _ = try bench.apply(
            .rotate(
                project: project, ordinal: instances[20].ordinal, holder: instances[20].holder,
                token: Token(bytes: [UInt8](repeating: 20, count: Limits.tokenRandomBytes))))
        _ = try bench.accepted(.topic("few"), in: project)
        _ = try bench.accepted(.topic("all"), in: project)
        _ = try bench.accepted(.token(instances[0].token.text), in: project)
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: instances[0].ordinal, through: .even(3),
                    single: [5])
            ]))
        return instances
    }

    /// Filled once, closed, and copied by every damage.
    static let filled = Result { () throws -> (folder: TemporaryFolder, instances: [Instance]) in
        let bench = try StoredBench()
        let instances = try fill(bench)
        try bench.reopen { folder in
            // A store that once held more: 'all' as a bitmap, 'some' as a list of a block.
            let raw = RawStore(folder: folder)
            for topic in [0, 3] as [UInt32] {
                let set = big(0 as UInt32) + big(topic)
                let list = try raw.get("sets", set + big(UInt32.max)) ?? []
                let members = stride(from: 0, to: list.count, by: 4).map {
                    UInt16(list[$0]) | UInt16(list[$0 + 1]) << 8
                }
                var row = members.flatMap { little($0) }
                if members.count > 500 {
                    row = [UInt8](repeating: 0, count: 4080)
                    for member in members { row[Int(member / 8)] |= 1 << UInt8(member % 8) }
                }
                try raw.change("sets", set + big(0 as UInt32), row)
                try raw.change("sets", set + big(UInt32.max), nil)
            }
        }
        return (bench.folder, instances)
    }

    @Test("A store that nobody damaged is clean, and everything in it was looked at")
    func clean() throws {
        let bench = try StoredBench()
        _ = try Self.fill(bench)
        var seen = 0
        let report = try bench.files.check { _ in seen += 1 }
        #expect(report.isClean, "\(report.problems)")
        #expect(seen > 2)
        #expect(report.counts.projects == 2)
        #expect(report.counts.keys == 1)
        #expect(report.counts.apps == 1)
        #expect(report.counts.instances == 698)
        #expect(report.counts.topics == 3)
        #expect(report.counts.subscriptions == 698 + 8 + 458)
        #expect(report.counts.groups == 1)
        #expect(report.counts.messages == 3)
        #expect(report.counts.recipients == 698 + 7 + 1)
    }

    /// A bench on a copy of the filled store.
    /// - Parameter damage: changes rows of the closed copy.
    private func damagedBench(_ damage: (RawStore, [Instance]) throws -> Void) throws -> StoredBench
    {
        let (filled, instances) = try Self.filled.get()
        let bench = try StoredBench()
        try bench.reopen { folder in
            try FileManager.default.removeItem(atPath: folder + "/data.mdb")
            try FileManager.default.copyItem(
                atPath: filled.data + "/data.mdb", toPath: folder + "/data.mdb")
            // The journal belongs to the file before.
            for name in ["journal.0", "journal.1"] { unlink(folder + "/" + name) }
            try damage(RawStore(folder: folder), instances)
        }
        return bench
    }

    @Test("A damaged index is found, and nothing else is said", arguments: Damage.all)
    func damaged(damage: Damage) throws {
        let bench = try damagedBench { raw, instances in
            let key =
                switch damage.table {
                case "tokens": instances[9].token.bytes
                case "formerTokens": instances[20].token.bytes
                default: damage.key
                }
            let value = try raw.get(damage.table, key) ?? []
            try raw.change(damage.table, key, damage.change.result(value))
        }
        let report = try bench.store.check()
        let kinds = report.problems.map(\.kind)
        #expect(Set(kinds) == Set(damage.expected), "\(report.problems)")
        #expect(report.problemCount == UInt64(kinds.count))
    }

    @Test(
        "Two tokens that lead to each other's instances are found, and no other project is accused")
    func exchanged() throws {
        let bench = try damagedBench { raw, instances in
            let keys = [instances[9].token.bytes, instances[10].token.bytes]
            let places = try keys.map { try raw.get("tokens", $0) }
            try raw.change("tokens", keys[0], places[1])
            try raw.change("tokens", keys[1], places[0])
        }
        // The bench of the filled store gave the same tokens.
        for _ in 0..<1000 { _ = bench.newInstance(in: "other") }
        #expect(try bench.register(3, in: "other").count == 3)
        let report = try bench.store.check()
        #expect(report.problems.map(\.kind) == Array(repeating: .tokenIndex, count: 4))
        #expect(Set(report.problems.map(\.project)) == [ProjectNumber(0)])
    }

    @Test("More problems than are listed are counted")
    func bounded() throws {
        let bench = try StoredBench()
        _ = try Self.fill(bench)
        let more = try bench.register(1200, in: "tides")
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let everyone = big(0 as UInt32) + big(0x8000_0000 as UInt32) + big(0 as UInt32)
            // Nobody, and then everybody who is not.
            var value = [UInt8](repeating: 0, count: 4080)
            for bit in 2000..<3200 { value[bit / 8] |= 1 << UInt8(bit % 8) }
            try raw.change("sets", everyone, value)
        }
        let report = try bench.store.check()
        #expect(more.count == 1200)
        #expect(report.problemCount == 1201)
        #expect(report.problems.count == CheckReport.problemsListedMax)
        #expect(report.problems.allSatisfy { $0.kind == .standingSet })
    }
}
