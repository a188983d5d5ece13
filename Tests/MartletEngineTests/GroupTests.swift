// SPDX-License-Identifier: Apache-2.0
//
// Groups: made, changed, sent to, and what becomes of them when their members leave
// (GRP-1 to GRP-6). Rests on Support.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Groups")
struct GroupTests {
    private static let key = GroupKey(bytes: [UInt8](repeating: 7, count: 24))

    private func create(
        _ bench: Bench, named name: String = "phones", _ tokens: [String],
        in project: ProjectNumber,
        key: GroupKey = Self.key
    ) throws -> Outcome {
        try bench.apply(.createGroup(project: project, name: name, key: key, tokens: tokens))
    }

    private func change(
        _ bench: Bench, _ change: GroupOperation, _ tokens: [String], in project: ProjectNumber,
        name: String = "phones", key: String = Self.key.text
    ) throws -> Outcome {
        try bench.apply(
            .changeGroup(project: project, name: name, key: key, change: change, tokens: tokens))
    }

    private func group(_ outcome: Outcome) throws -> GroupMembers {
        guard case .group(let group) = outcome else { throw Unexpected(outcome) }
        return group
    }

    private func error(_ outcome: Outcome) throws -> MartletError {
        guard case .refused(let error) = outcome else { throw Unexpected(outcome) }
        return error
    }

    private func find(
        _ bench: Bench, _ name: String = "phones", in project: ProjectNumber
    ) throws -> [Token]? {
        do {
            return try bench.store.read { (transaction) throws in
                try Listing.group(named: name, in: project, transaction).tokens
            }
        } catch let error as MartletError where error.word == .notFound {
            return nil
        }
    }

    private func results(_ outcome: Outcome) throws -> (Acceptance, [Fanout]) {
        guard case .accepted(let acceptance, let fanouts) = outcome else {
            throw Unexpected(outcome)
        }
        return (acceptance, fanouts)
    }

    @Test("GRP-1 GRP-3: a group is made of tokens, each once, and found by its name")
    func creates() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let other = try bench.project("other")
        let instances = try bench.register(3, in: "tides")
        let tokens = instances.map(\.token.text)
        let made = try group(
            try create(bench, [tokens[1], tokens[0], tokens[1], tokens[2]], in: project))
        #expect(made.key == Self.key && made.name.text == "phones")
        #expect(made.tokens.map(\.text) == [tokens[1], tokens[0], tokens[2]])
        #expect(try find(bench, in: project)?.map(\.text) == [tokens[1], tokens[0], tokens[2]])
        #expect(try find(bench, in: other) == nil)
        #expect(try find(bench, "Phones", in: project) == nil)
        try bench.expectClean()
    }

    @Test("GRP-1: an existing name is ALREADY_EXISTS; another project may have it")
    func exists() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let other = try bench.project("other")
        let token = try bench.register(1, in: "tides")[0].token.text
        _ = try group(try create(bench, [token], in: project))
        let second = GroupKey(bytes: [UInt8](repeating: 8, count: 24))
        let refused = try error(try create(bench, [token], in: project, key: second))
        #expect(refused.word == .alreadyExists && refused.field == "name")
        let foreign = try bench.register(1, in: "other")[0].token.text
        _ = try group(try create(bench, [foreign], in: other, key: second))
        try bench.expectClean()
    }

    @Test(
        "GRP-1: a name has 1 to 255 bytes of UTF-8 and no control characters",
        arguments: [
            ("a", true), (String(repeating: "ü", count: 127) + "x", true),
            (String(repeating: "ü", count: 128), false), ("", false), ("a\u{0}b", false),
            ("tab\there", false), ("\u{7F}", false), ("Hanna’s phones ⚓", true),
        ])
    func names(name: String, isValid: Bool) throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let token = try bench.register(1, in: "tides")[0].token.text
        let outcome = try create(bench, named: name, [token], in: project)
        if isValid {
            #expect(try group(outcome).name.text == name)
            #expect(try find(bench, name, in: project)?.count == 1)
        } else {
            let refused = try error(outcome)
            #expect(refused.word == .invalidArgument && refused.field == "name")
        }
        try bench.expectClean()
    }

    @Test("GRP-1 GRP-2: a bad token is named by its index, and nothing is applied")
    func badTokens() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        try bench.project("other")
        let instances = try bench.register(3, in: "tides")
        let foreign = try bench.register(1, in: "other")[0].token.text
        let tokens = instances.map(\.token.text)
        let nobody = bench.newInstance(in: "tides").token.text
        let faults: [(String, ErrorWord)] = [
            ("no token", .invalidArgument), (nobody, .unregistered), (foreign, .senderIDMismatch),
        ]
        for (bad, word) in faults {
            let refused = try error(try create(bench, [tokens[0], bad], in: project))
            #expect(refused.word == word && refused.field == "tokens[1]")
            #expect(try find(bench, in: project) == nil)
        }
        #expect(try error(try create(bench, [], in: project)).field == "tokens")
        _ = try group(try create(bench, [tokens[0]], in: project))
        for (bad, word) in faults {
            let refused = try error(
                try change(bench, .add, [tokens[1], tokens[2], bad], in: project))
            #expect(refused.word == word && refused.field == "tokens[2]")
            #expect(try find(bench, in: project) == [instances[0].token])
        }
        let removing = try error(try change(bench, .remove, [tokens[0], "x"], in: project))
        #expect(removing.word == .invalidArgument && removing.field == "tokens[1]")
        #expect(try find(bench, in: project) == [instances[0].token])
        try bench.expectClean()
    }

    @Test("GRP-2: twenty members, and not one more; nothing of the request is applied")
    func twenty() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let tokens = try bench.register(22, in: "tides").map(\.token.text)
        let tooMany = try error(try create(bench, Array(tokens[..<21]), in: project))
        #expect(tooMany.word == .invalidArgument && tooMany.field == "tokens")
        #expect(tooMany.message.contains("21"))
        // Twenty, however often they are said.
        let twenty = Array(tokens[..<20])
        #expect(try group(try create(bench, twenty + twenty, in: project)).tokens.count == 20)
        #expect(try error(try change(bench, .add, [tokens[20]], in: project)).field == "tokens")
        #expect(try group(try change(bench, .add, twenty, in: project)).tokens.count == 20)
        _ = try group(try change(bench, .remove, [tokens[3]], in: project))
        let two = try error(try change(bench, .add, [tokens[20], tokens[21]], in: project))
        #expect(two.word == .invalidArgument)
        #expect(try find(bench, in: project)?.count == 19)
        let last = try group(try change(bench, .add, [tokens[20]], in: project))
        #expect(last.tokens.last?.text == tokens[20] && last.tokens.count == 20)
        try bench.expectClean()
    }

    @Test("GRP-2: name and key must be those of one group")
    func nameAndKey() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let tokens = try bench.register(2, in: "tides").map(\.token.text)
        _ = try group(try create(bench, [tokens[0]], in: project))
        let second = GroupKey(bytes: [UInt8](repeating: 8, count: 24))
        _ = try group(try create(bench, named: "others", [tokens[0]], in: project, key: second))
        let cases: [(String, String, ErrorWord, String)] = [
            ("nobody", Self.key.text, .notFound, "name"),
            ("phones", second.text, .invalidArgument, "key"),
            ("others", Self.key.text, .invalidArgument, "key"),
            ("phones", "short", .invalidArgument, "key"),
        ]
        for (name, key, word, field) in cases {
            for operation in GroupOperation.allCases {
                let refused = try error(
                    try change(bench, operation, [tokens[1]], in: project, name: name, key: key))
                #expect(refused.word == word && refused.field == field)
            }
        }
        #expect(try find(bench, in: project)?.count == 1)
    }

    @Test("GRP-2: who is a member is added again, who is none is removed, and both succeed")
    func repeats() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        let tokens = instances.map(\.token.text)
        _ = try group(try create(bench, [tokens[0], tokens[1]], in: project))
        let same = try group(try change(bench, .add, [tokens[1], tokens[0]], in: project))
        #expect(same.tokens.map(\.text) == [tokens[0], tokens[1]])
        let nobody = bench.newInstance(in: "tides").token.text
        let still = try group(try change(bench, .remove, [tokens[2], nobody], in: project))
        #expect(still.tokens.count == 2)
        try bench.expectClean()
    }

    @Test("GRP-4 REG-3: the last member ends the group, removed or unregistered; the name is free")
    func ends() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        let tokens = instances.map(\.token.text)
        _ = try group(try create(bench, tokens, in: project))
        #expect(try group(try change(bench, .remove, tokens, in: project)).tokens.isEmpty)
        #expect(try find(bench, in: project) == nil)
        #expect(
            try error(try change(bench, .add, tokens, in: project)).word == .notFound)
        let second = GroupKey(bytes: [UInt8](repeating: 8, count: 24))
        _ = try group(try create(bench, Array(tokens[..<2]), in: project, key: second))
        for (index, instance) in instances[..<2].enumerated() {
            #expect(try find(bench, in: project)?.count == 2 - index)
            _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
        }
        #expect(try find(bench, in: project) == nil)
        // The ordinal's next holder is a member of nothing.
        let next = try bench.register(1, in: "tides")[0]
        #expect(next.ordinal == instances[0].ordinal)
        let (acceptance, fanouts) = try results(
            try bench.send(.group(second.text), in: project))
        #expect(acceptance.named == .group(successCount: 0, failures: []) && fanouts.isEmpty)
        try bench.expectClean()
    }

    @Test("GRP-5: a send reaches every member at once, stored as one message, and says so")
    func sends() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(4, in: "tides")
        _ = try group(try create(bench, instances[..<3].map(\.token.text), in: project))
        let (acceptance, fanouts) = try results(
            try bench.send(.group(Self.key.text), in: project, body: [9]))
        #expect(acceptance.recipientCount == 3)
        #expect(acceptance.named == .group(successCount: 3, failures: []))
        #expect(
            fanouts.flatMap(\.recipients.ordinals) == instances[..<3].map(\.ordinal.rawValue))
        #expect(fanouts.count == 1)
        #expect(fanouts.allSatisfy { $0.header.kind == .group && $0.header.from == "4711" })
        #expect(Set(fanouts.map(\.header.sequence)).count == 1)
        for instance in instances[..<3] {
            #expect(
                try bench.pending(instance) == [
                    Waiting(sequence: acceptance.messageNumber, from: "4711", body: [9])
                ])
        }
        #expect(try bench.pending(instances[3]).isEmpty)
        try bench.expectClean()
    }

    @Test("GRP-5: an unknown group answers 0 and 0; text that is no key is INVALID_ARGUMENT")
    func unknown() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let (acceptance, fanouts) = try results(
            try bench.send(.group(Self.key.text), in: project))
        #expect(acceptance.recipientCount == 0 && acceptance.messageNumber > 0)
        #expect(acceptance.named == .group(successCount: 0, failures: []) && fanouts.isEmpty)
        let refused = try error(try bench.send(.group("my phones"), in: project))
        #expect(refused.word == .invalidArgument && refused.field == "group")
        let (checked, _) = try results(
            try bench.send(.group(Self.key.text), in: project, validateOnly: true))
        #expect(checked.messageNumber == 0)
    }

    @Test("REG-4: a new token changes no group; failures and members are told by it")
    func rotates() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(2, in: "tides")
        _ = try group(try create(bench, instances.map(\.token.text), in: project))
        let token = Token(words: (1, 2, 3))
        _ = try bench.apply(
            .rotate(
                project: project, ordinal: instances[0].ordinal, holder: instances[0].holder,
                token: token))
        #expect(try find(bench, in: project) == [token, instances[1].token])
        let (acceptance, _) = try results(try bench.send(.group(Self.key.text), in: project))
        #expect(acceptance.recipientCount == 2)
        // GRP-2: either token removes the member.
        for text in [instances[0].token.text, token.text] {
            #expect(
                try group(try change(bench, .remove, [text], in: project)).tokens
                    == [instances[1].token])
            #expect(
                try group(try change(bench, .add, [token.text], in: project)).tokens.count == 2)
        }
        try bench.expectClean()
    }

    @Test("An instance is a member of 1000 groups at most; the next is RESOURCE_EXHAUSTED")
    func manyGroups() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(2, in: "tides")
        let tokens = instances.map(\.token.text)
        func key(_ number: Int) -> GroupKey {
            GroupKey(bytes: [UInt8](repeating: 0, count: 16) + little(UInt64(number)))
        }
        let commands = (0..<1000).map { number in
            Command.createGroup(
                project: project, name: "\(number)", key: key(number), tokens: [tokens[0]])
        }
        for outcome in try bench.apply(commands) { _ = try group(outcome) }
        let refused = try error(
            try create(bench, [tokens[1], tokens[0]], in: project, key: key(1000)))
        #expect(refused.word == .resourceExhausted && refused.field == "tokens[1]")
        try bench.expectClean()
        _ = try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal))
        let left = try bench.store.read { (transaction) throws in
            try Listing.groups(in: project, after: "", limit: 10, transaction)
        }
        #expect(left.entries.isEmpty && !left.hasMore)
        try bench.expectClean()
    }

    @Test("Groups are listed in pages, in the order of their names")
    func lists() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let token = try bench.register(1, in: "tides")[0].token.text
        let names = ["b", "a", "ä", "a b", "ab", String(repeating: "z", count: 255)]
        for (index, name) in names.enumerated() {
            let key = GroupKey(bytes: [UInt8](repeating: UInt8(index + 1), count: 24))
            _ = try group(try create(bench, named: name, [token], in: project, key: key))
        }
        var found: [String] = []
        while true {
            let page = try bench.store.read { (transaction) throws in
                try Listing.groups(in: project, after: found.last ?? "", limit: 2, transaction)
            }
            #expect(page.entries.count <= 2)
            found += page.entries.map(\.name.text)
            if !page.hasMore { break }
        }
        #expect(found == names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    }
}
