// SPDX-License-Identifier: Apache-2.0
//
// The damages that `CheckTests` makes, one row at a time, and the problems that a check must find. Keys
// and values are written out as bytes here: the tests have their own picture of the format, so a
// changed format fails them. Rests on RawStore.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

/// One way of damaging the store of `CheckTests.fill`.
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

    /// All, or a tenth without optimisation.
    static let tried = stride(from: 0, to: all.count, by: all.count / rounds(all.count)).map {
        all[$0]
    }

    /// The store is `CheckTests.fill`: ordinals 0 ..< 700 of which 5 and 6 have left; topic 0 "all"
    /// of everyone (one bitmap), topic 1 "few" of 0 ..< 10 without 5 and 6 (a list of ordinals),
    /// topic 2 free, topic 3 "some" of 0 ..< 460 without those (a list of a block); messages 3 to
    /// "few" (inbox), 4 to "all" (a blob), 5 to ordinal 0; ordinal 0 has acknowledged 3 and,
    /// singly, 5. The two that left took the numbers 1 and 2. Ordinal 20 has another token than at
    /// first.
    /// A group "g" has 0, 1 and 2 as members.
    private static let all: [Damage] = [
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
