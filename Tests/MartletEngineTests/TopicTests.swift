// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions (TOP). Rests on Bench.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Topics")
struct TopicTests {
    @Test(
        "TOP-1 TOP-8: the first subscriber makes a topic, the last one ends it, and nobody is reached without"
    )
    func existence() throws {
        let bench = Bench()
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
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(600, in: "tides")
        try bench.change(.subscribe, "old", instances, in: project)
        let number = try bench.store.read { (transaction) throws in
            try transaction.topics.topic(named: try TopicName(validating: "old"), in: project)?
                .number
        }
        try bench.change(.unsubscribe, "old", instances, in: project)
        try bench.change(.subscribe, "new", [instances[3]], in: project)
        let reused = try bench.store.read { (transaction) throws in
            try transaction.topics.topic(named: try TopicName(validating: "new"), in: project)?
                .number
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
        let bench = Bench()
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
        let bench = Bench()
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
        let bench = Bench()
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
        let bench = Bench()
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
        let bench = Bench()
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
        let bench = Bench()
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
        let bench = Bench()
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
