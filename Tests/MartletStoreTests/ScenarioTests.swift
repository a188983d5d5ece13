// SPDX-License-Identifier: Apache-2.0
//
// The rows of the specification that the engine and the store prove together, one by one, and the
// universes that random histories are too small for. Rests on Support.

import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletStore
import Testing

@Suite("Registration and credentials")
struct RegistrationTests {
    @Test(
        "REG-1: registering gives an instance of the app and platform asked for, and apps are made once"
    )
    func register() throws {
        let bench = try Bench()
        try bench.project("tides")
        let first = bench.newInstance(in: "tides", app: "com.example.tides", platform: .android)
        let second = bench.newInstance(in: "tides", app: "com.example.tides", platform: .apple)
        let third = bench.newInstance(in: "tides", app: "com.example.tides", platform: .android)
        let outcomes = try bench.apply([.register(first), .register(second), .register(third)])
        let instances = try outcomes.map { outcome in
            guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
            return instance
        }
        #expect(instances.map(\.token) == [first, second, third].map(\.token))
        #expect(instances.map(\.platform) == [.android, .apple, .android])
        #expect(instances[0].app == instances[2].app && instances[0].app != instances[1].app)
        #expect(Set(instances.map(\.ordinal)).count == 3)
        try bench.expectClean()
    }

    @Test(
        "REG-2: a wrong key, an unknown token and another project's token are refused, each by its word"
    )
    func connect() throws {
        let bench = try Bench()
        try bench.project("tides")
        try bench.project("other")
        let instance = try bench.register(1, in: "tides")[0]
        let wrong = SecretDigest(bytes: [UInt8](repeating: 9, count: 32))
        func word(_ project: String, _ token: String, _ digest: SecretDigest) throws -> ErrorWord? {
            do {
                _ = try bench.store.read { (transaction) throws in
                    try Authentication.device(
                        projectID: project, token: token, digest: digest, in: transaction)
                }
                return nil
            } catch let error as MartletError {
                return error.word
            }
        }
        let token = instance.token.text
        #expect(try word("tides", token, instance.keyDigest) == nil)
        #expect(try word("tides", token, wrong) == .unauthenticated)
        #expect(
            try word("tides", String(repeating: "A", count: 32), instance.keyDigest)
                == .unregistered)
        #expect(try word("other", token, instance.keyDigest) == .unregistered)
        #expect(try word("nowhere", token, instance.keyDigest) == .notFound)
        #expect(try word("", token, instance.keyDigest) == .notFound)
        #expect(
            try word(String(repeating: "p", count: 600), token, instance.keyDigest) == .notFound)
        #expect(try word("tides", "short", instance.keyDigest) == .invalidArgument)
    }

    @Test("REG-3: unregistering drops the mailbox, leaves every topic and invalidates the token")
    func unregister() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        try bench.change(.subscribe, "mine", [instances[0]], in: project)
        _ = try bench.accepted(.token(instances[0].token.text), in: project)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal))
        #expect(
            refusal(try bench.send(.token(instances[0].token.text), in: project)) == .unregistered)
        #expect(try bench.members(of: "all", in: project) == instances[1...].map(\.token))
        #expect(try bench.members(of: "mine", in: project) == [])
        #expect(try bench.pending(instances[0]) == [])
        #expect(
            refusal(
                try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal)))
                == .unregistered)
        try bench.expectClean()
    }

    @Test(
        "REG-3: an ordinal that is used again inherits neither topics nor messages nor acknowledgements"
    )
    func reuse() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(100, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        let old = instances[7]
        _ = try bench.accepted(.topic("all"), in: project)
        _ = try bench.accepted(.token(old.token.text), in: project)
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: old.ordinal, through: .none, single: [2])
            ]))
        _ = try bench.apply(.unregister(project: project, ordinal: old.ordinal))
        let new = try bench.register(1, in: "tides")[0]
        #expect(new.ordinal == old.ordinal, "the ordinal was not used again")
        #expect(try bench.pending(new) == [])
        #expect(try !bench.members(of: "all", in: project).contains(new.token))
        _ = try bench.accepted(.topic("all"), in: project)
        #expect(try bench.pending(new) == [])
        _ = try bench.accepted(.token(new.token.text), in: project, body: [7])
        #expect(try bench.pending(new).map(\.body) == [[7]])
        // An acknowledgement of the old holder that comes late means nothing to the new one.
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: old.ordinal, through: MessageSequence(2))
            ]))
        #expect(try bench.pending(new).map(\.body) == [[7]])
        try bench.expectClean()
    }

    @Test("REG-5: of a server key only the digest is stored, and revoking ends it")
    func serverKeys() throws {
        let bench = try Bench()
        try bench.project("tides")
        try bench.project("other")
        let digest = SecretDigest(bytes: (0..<32).map { 200 &- UInt8($0) })
        let key = NewKey(id: "key-1", name: "a name to be found in the file", digest: digest)
        _ = try bench.apply(.createKey(project: "tides", key: key))
        func word(_ project: String, _ id: String, _ digest: SecretDigest) throws -> ErrorWord? {
            do {
                _ = try bench.store.read { (transaction) throws in
                    try Authentication.sender(
                        projectID: project, keyID: id, digest: digest, in: transaction)
                }
                return nil
            } catch let error as MartletError {
                return error.word
            }
        }
        let wrong = SecretDigest(bytes: [UInt8](repeating: 9, count: 32))
        #expect(try word("tides", "key-1", digest) == nil)
        #expect(try word("tides", "key-1", wrong) == .unauthenticated)
        #expect(try word("tides", "key-2", digest) == .unauthenticated)
        #expect(try word("tides", "", digest) == .unauthenticated)
        #expect(try word("other", "key-1", digest) == .unauthenticated)
        #expect(
            refusal(try bench.apply(.revokeKey(project: "other", keyID: "key-1"))) == .notFound)
        #expect(try word("tides", "key-1", digest) == nil)
        _ = try bench.apply(.revokeKey(project: "tides", keyID: "key-1"))
        #expect(try word("tides", "key-1", digest) == .unauthenticated)
        try bench.expectClean()
    }
}

@Suite("Topics")
struct TopicTests {
    @Test(
        "TOP-1 TOP-8: the first subscriber makes a topic, the last one ends it, and nobody is reached without"
    )
    func existence() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let (before, none) = try bench.accepted(.topic("dogs"), in: project)
        #expect(before == Acceptance(messageNumber: 1, recipientCount: 0) && none == nil)
        try bench.change(.subscribe, "dogs", [instance], in: project)
        #expect(try bench.accepted(.topic("dogs"), in: project).0.recipientCount == 1)
        try bench.change(.unsubscribe, "dogs", [instance], in: project)
        #expect(try bench.accepted(.topic("dogs"), in: project).0.recipientCount == 0)
        let topics = try bench.store.read { (transaction) throws in
            try Listing.topics(in: project, after: "", limit: 10, transaction)
        }
        #expect(topics.entries.isEmpty)
        try bench.expectClean()
    }

    @Test("TOP-1: a topic number that is used again brings no subscriber with it")
    func numberReuse() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(600, in: "tides")
        try bench.change(.subscribe, "old", instances, in: project)
        let number = try bench.store.read { (transaction) throws in
            try transaction.topic(named: try TopicName(validating: "old"), in: project)?.number
        }
        try bench.change(.unsubscribe, "old", instances, in: project)
        try bench.change(.subscribe, "new", [instances[3]], in: project)
        let reused = try bench.store.read { (transaction) throws in
            try transaction.topic(named: try TopicName(validating: "new"), in: project)?.number
        }
        #expect(reused == number, "the number was not used again")
        #expect(try bench.members(of: "new", in: project) == [instances[3].token])
        try bench.expectClean()
    }

    @Test(
        "TOP-2: names are of [a-zA-Z0-9-_.~%], 1 to 900 bytes, case-sensitive, with one optional prefix",
        arguments: [
            ("dogs", true), ("Dogs", true), ("/topics/dogs", true), ("-_.~%", true),
            (String(repeating: "n", count: 900), true), ("", false), ("/topics/", false),
            ("/topics//topics/x", false), ("with blank", false), ("é", false), ("a/b", false),
            (String(repeating: "n", count: 901), false), ("a\u{0}", false), ("a*", false),
        ])
    func names(text: String, isValid: Bool) throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let device = try bench.deviceChange(.subscribe, [text], instance)
        #expect(device.successCount == (isValid ? 1 : 0))
        let sender = try bench.apply(
            .changeTopic(
                project: project, topic: text, change: .subscribe, tokens: [instance.token.text]))
        #expect((refusal(sender) == .invalidArgument) == !isValid)
        #expect(
            (refusal(try bench.send(.topic(text), in: project)) == .invalidArgument) == !isValid)
        #expect(try bench.store.check().counts.subscriptions == (isValid ? 1 : 0))
    }

    @Test("TOP-3: the 2001st topic of an instance is refused for it alone, by device and by sender")
    func tooMany() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(2, in: "tides")
        for start in stride(from: 0, to: 2000, by: 100) {
            let names = (start..<(start + 100)).map { "topic-\($0)" }
            #expect(try bench.deviceChange(.subscribe, names, instances[0]).failures.isEmpty)
        }
        let more = try bench.deviceChange(
            .subscribe, ["topic-5", "one-more", "two-more"], instances[0])
        #expect(
            more
                == TopicChangeResult(
                    successCount: 1,
                    failures: [
                        .init(index: 1, word: .tooManyTopics),
                        .init(index: 2, word: .tooManyTopics),
                    ]))
        let outcome = try bench.apply(
            .changeTopic(
                project: project, topic: "one-more", change: .subscribe,
                tokens: instances.map(\.token.text)))
        guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
        #expect(result.failures == [.init(index: 0, word: .tooManyTopics)])
        #expect(try bench.members(of: "one-more", in: project) == [instances[1].token])
        // There is room again after leaving one.
        _ = try bench.deviceChange(.unsubscribe, ["topic-9"], instances[0])
        #expect(try bench.deviceChange(.subscribe, ["one-more"], instances[0]).successCount == 1)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal))
        #expect(try bench.store.check().counts.topics == 1)
        try bench.expectClean()
    }

    @Test(
        "TOP-4: 1000 tokens are a request, 1001 and none are an error of the whole",
        arguments: [0, 1, 1000, 1001])
    func requestSize(count: Int) throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(max(count, 1), in: "tides")
        let outcome = try bench.apply(
            .changeTopic(
                project: project, topic: "dogs", change: .subscribe,
                tokens: instances.prefix(count).map(\.token.text)))
        let isAllowed = (1...1000).contains(count)
        #expect((refusal(outcome) == .invalidArgument) == !isAllowed)
        #expect(try bench.members(of: "dogs", in: project).count == (isAllowed ? count : 0))
    }

    @Test(
        "TOP-4: tokens of another project are NOT_FOUND in topic changes, and SENDER_ID_MISMATCH in sends"
    )
    func isolation() throws {
        let bench = try Bench()
        let tides = try bench.project("tides")
        let other = try bench.project("other")
        let mine = try bench.register(1, in: "tides")[0]
        let theirs = try bench.register(1, in: "other")[0]
        #expect(mine.ordinal == theirs.ordinal, "equal ordinals make this hard")
        let outcome = try bench.apply(
            .changeTopic(
                project: tides, topic: "dogs", change: .subscribe,
                tokens: [theirs.token.text, mine.token.text, "?"]))
        guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
        #expect(
            result
                == TopicChangeResult(
                    successCount: 1,
                    failures: [
                        .init(index: 0, word: .notFound), .init(index: 2, word: .invalidArgument),
                    ]))
        #expect(refusal(try bench.send(.token(theirs.token.text), in: tides)) == .senderIDMismatch)
        try bench.change(.subscribe, "dogs", [theirs], in: other)
        _ = try bench.accepted(.topic("dogs"), in: tides, body: [1])
        _ = try bench.accepted(.condition("!('dogs' in topics)"), in: other, body: [2])
        _ = try bench.accepted(.condition("'dogs' in topics"), in: other, body: [3])
        #expect(try bench.pending(mine).map(\.body) == [[1]])
        #expect(try bench.pending(theirs).map(\.body) == [[3]])
        let found = try? bench.store.read { (transaction) throws in
            try Listing.locate(theirs.token.text, in: tides, transaction)
        }
        #expect(found == nil)
        try bench.expectClean()
    }

    @Test(
        "TOP-7: subscribing twice is one subscription, unsubscribing without one succeeds, and both outlive the process's memory"
    )
    func idempotent() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        #expect(try bench.deviceChange(.unsubscribe, ["dogs"], instance).successCount == 1)
        #expect(try bench.deviceChange(.subscribe, ["dogs", "dogs"], instance).successCount == 2)
        #expect(try bench.deviceChange(.subscribe, ["dogs"], instance).successCount == 1)
        try bench.change(.subscribe, "dogs", [instance, instance], in: project)
        try bench.reopen()
        #expect(try bench.members(of: "dogs", in: project) == [instance.token])
        let topics = try bench.store.read { (transaction) throws in
            try Listing.topics(in: project, after: "", limit: 10, transaction)
        }
        #expect(topics.entries.map(\.subscriberCount) == [1])
        try bench.expectClean()
    }

    @Test(
        "TOP-9: pages of any size together are the whole list, in order, and a page has 1 to 1000 entries",
        arguments: [1, 7, 999, 1000])
    func pages(size: Int) throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(2003, in: "tides")
        try bench.change(.subscribe, "dogs", instances, in: project)
        var tokens: [Token] = []
        var from: Ordinal? = Ordinal(0)
        while let start = from {
            let page = try bench.store.read { (transaction) throws in
                try Listing.subscribers(
                    of: try TopicName(validating: "dogs"), in: project, from: start, limit: size,
                    transaction)
            }
            #expect(page.total == 2003 && page.tokens.count <= size)
            tokens += page.tokens
            from = page.next
        }
        #expect(tokens == instances.map(\.token))
        for limit in [0, 1001, -1] {
            #expect(throws: MartletError.self) {
                try bench.store.read { (transaction) throws in
                    try Listing.topics(in: project, after: "", limit: limit, transaction)
                }
            }
        }
    }

    @Test("TOP-9: pages of projects are the whole list, from the empty ID on")
    func projectPages() throws {
        let bench = try Bench()
        let names = ["a", "a-", "a-b", "b", "tides", String(repeating: "z", count: 64)]
        for name in names.reversed() { try bench.project(name) }
        for size in [1, 2, 10] {
            var found: [String] = []
            while true {
                let page = try bench.store.read { (transaction) throws in
                    try Listing.projects(after: found.last ?? "", limit: size, transaction)
                }
                found += page.entries.map(\.id)
                if !page.hasMore { break }
            }
            #expect(found == names)
        }
    }
}

@Suite("Every form of a set")
struct SetFormTests {
    /// Reads the rows of a topic's set past the store.
    private func forms(_ bench: Bench, topic: UInt32, blocks: Int) throws -> [String] {
        var forms: [String] = []
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let prefix = big(0 as UInt32) + big(topic)
            for block in Array(0..<UInt32(blocks)) + [.max] {
                guard let value = try raw.get("sets", prefix + big(block)) else { continue }
                forms.append(
                    block == .max ? "small" : value.count == 4080 ? "bitmap" : "list")
            }
        }
        return forms
    }

    @Test(
        "TOP-1 CON-1: a topic grows through a list of ordinals, lists of blocks and bitmaps and shrinks again, and is always who subscribed"
    )
    func growth() throws {
        let bench = try Bench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        // Across the boundary of a block: 32,640 are the first block's.
        let instances = try bench.register(33_500, in: "tides")
        #expect(instances.allSatisfy { $0.ordinal.isUsable })
        #expect(instances[32_639].ordinal.rawValue == 32_639)
        #expect(instances[32_640].ordinal.rawValue == 32_768)
        try bench.change(
            .subscribe, "even", instances.indices.filter { $0 % 2 == 0 }.map { instances[$0] },
            in: project)
        var members = Set<Int>()
        func expect(_ expected: [String], _ location: SourceLocation = #_sourceLocation) throws {
            #expect(try forms(bench, topic: 1, blocks: 2) == expected, sourceLocation: location)
            let tokens = try bench.members(of: "dogs", in: project)
            #expect(
                tokens == members.sorted().map { instances[$0].token }, sourceLocation: location)
            let audience = try bench.store.read { (transaction) throws in
                try Audience(
                    of: "'dogs' in topics && !('even' in topics)", in: project, SharedPrograms(),
                    transaction)
            }
            #expect(
                audience.total == UInt64(members.filter { $0 % 2 == 1 }.count),
                sourceLocation: location)
            let all = try bench.store.read { (transaction) throws in
                try Audience(of: "!('dogs' in topics)", in: project, SharedPrograms(), transaction)
            }
            #expect(all.total == UInt64(33_500 - members.count), sourceLocation: location)
            try bench.expectClean(location)
        }
        func join(_ range: some Sequence<Int>) throws {
            let indices = Array(range)
            members.formUnion(indices)
            try bench.change(.subscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        func leave(_ range: some Sequence<Int>) throws {
            let indices = Array(range)
            members.subtract(indices)
            try bench.change(.unsubscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        try join(0..<440)
        try join(32_639..<32_647)
        try expect(["small"])
        // One more than a list of ordinals holds.
        try join([5_000])
        try expect(["list", "list"])
        try join(440..<498)
        #expect(members.count == 507)
        try expect(["list", "list"])
        // The first block's 501st.
        try join([498, 499])
        try expect(["bitmap", "list"])
        try join(stride(from: 1000, to: 33_500, by: 3))
        try expect(["bitmap", "list"])
        try join(32_700..<33_400)
        try expect(["bitmap", "bitmap"])
        try leave(32_700..<33_400)
        try leave(stride(from: 1000, to: 33_500, by: 3))
        try leave(100..<440)
        try expect(["list", "list"])
        try leave(32_000..<33_500)
        try expect(["list"])
        try leave(members.sorted().dropLast())
        try expect(["list"])
        try leave(members)
        #expect(try forms(bench, topic: 1, blocks: 2) == [])
        try join([3])
        try expect(["small"])
    }

    @Test(
        "MSG-6 CON-10: a message to tens of thousands is kept once, and is everyone's until acknowledged"
    )
    func large() throws {
        let bench = try Bench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        let instances = try bench.register(33_000, in: "tides")
        try bench.change(.subscribe, "a", instances[..<20_000], in: project)
        try bench.change(.subscribe, "b", instances[10_000...], in: project)
        let condition = "'a' in topics || 'b' in topics"
        let (all, fanout) = try bench.accepted(.condition(condition), in: project, body: [1])
        #expect(all.recipientCount == 33_000)
        #expect(fanout?.recipients.count == 33_000)
        let (some, _) = try bench.accepted(
            .condition("'a' in topics && 'b' in topics"), in: project, body: [2])
        #expect(some.recipientCount == 10_000)
        for (index, bodies) in [
            (0, [[1]]), (9999, [[1]]), (10_000, [[1], [2]]), (19_999, [[1], [2]]),
            (20_000, [[1]]), (32_640, [[1]]), (32_999, [[1]]),
        ] as [(Int, [[UInt8]])] {
            #expect(try bench.pending(instances[index]).map(\.body) == bodies)
        }
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: instances[10_000].ordinal,
                    through: MessageSequence(1))
            ]))
        #expect(try bench.pending(instances[10_000]).map(\.body) == [[2]])
        try bench.expectClean()
    }
}

@Suite("Sending")
struct SendingTests {
    @Test("MSG-7: validate_only checks everything and sends nothing")
    func validateOnly() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let targets: [(SendCommand.Target, ErrorWord?)] = [
            (.token(instance.token.text), nil), (.condition("!('x' in topics)"), nil),
            (.topic("no one"), .invalidArgument), (.token("?"), .invalidArgument),
            (.condition("'x' in"), .invalidArgument),
            (.token(String(repeating: "A", count: 32)), .unregistered),
        ]
        for (target, word) in targets {
            let outcome = try bench.send(target, in: project, validateOnly: true)
            #expect(refusal(outcome) == word)
            guard word == nil else { continue }
            guard case .accepted(let acceptance, nil) = outcome else { throw Unexpected(outcome) }
            #expect(acceptance == Acceptance(messageNumber: 0, recipientCount: 1))
        }
        #expect(try bench.pending(instance) == [])
        // No number was used up.
        #expect(try bench.accepted(.topic("x"), in: project).0.messageNumber == 1)
    }

    @Test("MSG-6: an accepted message is there after reopening, byte for byte, and numbers go on")
    func durable() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let body = (0..<4000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        _ = try bench.accepted(.token(instance.token.text), in: project, body: body)
        try bench.reopen()
        #expect(try bench.pending(instance) == [Waiting(sequence: 1, from: "4711", body: body)])
        let (next, _) = try bench.accepted(.token(instance.token.text), in: project)
        #expect(next.messageNumber == 2)
    }

    @Test(
        "CON-3: a sixth topic is refused where the project did not raise the limit, whatever was compiled before"
    )
    func topicsMax() throws {
        let bench = try Bench()
        let wide = try bench.project("wide", topicsMax: 64)
        let narrow = try bench.project("narrow")
        let six = (0..<6).map { "'t\($0)' in topics" }.joined(separator: " || ")
        #expect(try bench.accepted(.condition(six), in: wide).0.recipientCount == 0)
        #expect(refusal(try bench.send(.condition(six), in: narrow)) == .invalidArgument)
        let five = (0..<5).map { "'t\($0)' in topics" }.joined(separator: " || ")
        _ = try bench.accepted(.condition(five + " || 't0' in topics"), in: narrow)
        for topicsMax in [-1, 65] {
            let outcome = try bench.apply(
                .createProject(id: "x", senderID: 0, conditionTopicsMax: topicsMax))
            #expect(refusal(outcome) == .invalidArgument)
        }
    }

    @Test(
        "CON-4: a negation selects those without any subscription too, and no more than are registered"
    )
    func negation() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(5, in: "tides")
        try bench.change(.subscribe, "dogs", instances[..<2], in: project)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[4].ordinal))
        let (acceptance, _) = try bench.accepted(.condition("!('dogs' in topics)"), in: project)
        #expect(acceptance.recipientCount == 2)
        let (everyone, _) = try bench.accepted(.condition("!('nothing' in topics)"), in: project)
        #expect(everyone.recipientCount == 4)
    }

    @Test("CON-5: who joins or leaves after acceptance changes nothing for that message")
    func instant() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "dogs", instances[..<2], in: project)
        _ = try bench.accepted(.topic("dogs"), in: project)
        try bench.change(.unsubscribe, "dogs", [instances[0]], in: project)
        try bench.change(.subscribe, "dogs", [instances[2]], in: project)
        #expect(try instances.map { try bench.pending($0).count } == [1, 1, 0])
    }

    @Test("CON-11: commands of one transaction see those before them")
    func readYourWrites() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let change = Command.changeTopics(
            project: project, ordinal: instance.ordinal, change: .subscribe, topics: ["dogs"])
        let send = Command.send(
            project: project, message: SendCommand(target: .topic("dogs"), body: []))
        let back = Command.changeTopics(
            project: project, ordinal: instance.ordinal, change: .unsubscribe, topics: ["dogs"])
        let counts = try bench.apply([send, change, send, back, send]).compactMap { outcome in
            if case .accepted(let acceptance, _) = outcome {
                acceptance.recipientCount
            } else {
                nil
            }
        }
        #expect(counts == [0, 1, 0] as [UInt64])
    }

    @Test(
        "TTL-3: a message lives 28 days unless told otherwise, and is never delivered afterwards",
        arguments: [nil, 1, 60, 2_419_200] as [UInt32?])
    func lifespan(seconds: UInt32?) throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        _ = try bench.accepted(.token(instance.token.text), in: project, timeToLive: seconds)
        let start = bench.now
        bench.now = Instant(
            millisecondsSince1970: start.advanced(bySeconds: Int64(seconds ?? 2_419_200))
                .millisecondsSince1970 - 1)
        #expect(try bench.pending(instance).count == 1)
        bench.now = Instant(millisecondsSince1970: bench.now.millisecondsSince1970 + 1)
        #expect(try bench.pending(instance).isEmpty)
    }

    @Test("TTL-1: more than 28 days are refused; TTL-2: none is stored")
    func lifespanBounds() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let target = SendCommand.Target.token(instance.token.text)
        #expect(
            refusal(try bench.send(target, in: project, timeToLive: 2_419_201)) == .invalidArgument)
        let (now, fanout) = try bench.accepted(target, in: project, timeToLive: 0)
        #expect(now.recipientCount == 1)
        #expect(fanout?.header.sequence.isStored == false)
        #expect(try bench.pending(instance).isEmpty)
        #expect(try bench.store.check().counts.messages == 0)
    }

    @Test(
        "TTL-4: what is not acknowledged is pending again, in order, and what is acknowledged singly is not"
    )
    func acknowledging() throws {
        let bench = try Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(80, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        // By turns rows of the inbox and blobs.
        for index in 0..<6 as Range<UInt8> {
            let target: SendCommand.Target =
                index % 2 == 0 ? .token(instances[0].token.text) : .topic("all")
            _ = try bench.accepted(target, in: project, body: [index])
        }
        func bodies() throws -> [UInt8] { try bench.pending(instances[0]).flatMap(\.body) }
        func acknowledge(_ through: UInt64, _ single: [UInt64] = []) throws {
            _ = try bench.apply(
                .acknowledge([
                    Acknowledgement(
                        project: project, ordinal: instances[0].ordinal,
                        through: MessageSequence(through), single: single)
                ]))
        }
        #expect(try bodies() == [0, 1, 2, 3, 4, 5])
        try acknowledge(0, [4, 2])
        #expect(try bodies() == [0, 2, 4, 5])
        try acknowledge(1)
        #expect(try bodies() == [2, 4, 5])
        try acknowledge(4)
        #expect(try bodies() == [4, 5])
        try acknowledge(2)
        #expect(try bodies() == [4, 5])
        try bench.expectClean()
        try bench.reopen()
        #expect(try bodies() == [4, 5])
        #expect(try bench.pending(instances[1]).flatMap(\.body) == [1, 3, 5])
    }
}
