// SPDX-License-Identifier: Apache-2.0
//
// Random histories, step by step beside the naive model: every outcome is compared
// when it comes, and every index at checkpoints. Rests on Model and Support.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletCondition
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// One history: the store, the model, and what links the two.
private final class History {
    let bench: Bench
    var model = Model()
    var random: SeededGenerator
    var numbers: [String: ProjectNumber] = [:]
    /// By token text: every instance that ever was.
    var instances: [String: Instance] = [:]
    var retired: [String] = []
    let topicPool: [String]
    var bodies: UInt32 = 0

    init(seed: UInt64, longNames: Bool) throws {
        bench = Bench()
        random = SeededGenerator(seed: seed)
        let prefix = String(repeating: "x", count: 440)
        topicPool =
            ["dogs", "cats", "tides", "Tides", "a", "%", "weather.north~sea"]
            + (longNames
                ? [
                    prefix, prefix + "1", prefix + "2", prefix + String(repeating: "y", count: 460),
                    prefix + String(repeating: "y", count: 459) + "z",
                    String(prefix.dropLast()), String(repeating: "q", count: 900),
                ] : [])
    }

    func number(of project: String) -> ProjectNumber { numbers[project]! }

    var sortedTokens: [String] { model.devices.keys.sorted() }

    func anyToken() -> String? { sortedTokens.randomElement(using: &random) }
    func anyProject() -> String? { numbers.keys.sorted().randomElement(using: &random) }
    func anyTopic() -> String { topicPool.randomElement(using: &random)! }

    // MARK: Steps

    /// Up to 24 commands in one transaction, each with its check.
    func step() throws {
        var commands: [Command] = []
        var checks: [(Outcome) throws -> Void] = []
        for _ in 0..<random.number(1...24) {
            guard let (command, check) = makeCommand() else { continue }
            commands.append(command)
            checks.append(check)
            // Commands that name what the last one made need its outcome first.
            if case .register = command { break }
            if case .createProject = command { break }
        }
        let outcomes = try bench.apply(commands)
        for (outcome, check) in zip(outcomes, checks) { try check(outcome) }
        if random.chance(5) {
            bench.now = bench.now.advanced(bySeconds: Int64(random.number(1...90)))
        }
        if random.chance(1) {
            bench.now = bench.now.advanced(bySeconds: 2_419_200 - Int64(random.number(0...200)))
        }
        if random.chance(20) { try bench.sweep(rowsMax: random.number(1...40)) }
        if random.chance(1) { try bench.reopen() }
    }

    private func makeCommand() -> (Command, (Outcome) throws -> Void)? {
        let choice = random.number(0...99)
        if numbers.isEmpty || choice < 1 { return createProject() }
        switch choice {
        case ..<14: return register()
        case ..<20: return unregister()
        case ..<45: return deviceChange()
        case ..<65: return senderChange()
        case ..<85: return send()
        default: return acknowledge()
        }
    }

    private func createProject() -> (Command, (Outcome) throws -> Void) {
        let id = ["tides", "weather", "x-1", "Upper", "", String(repeating: "p", count: 65)]
            .randomElement(using: &random)!
        let isValid = ["tides", "weather", "x-1"].contains(id)
        let exists = model.projects[id] != nil
        if isValid, !exists { model.projects[id] = 0 }
        return (
            .createProject(id: id, senderID: 99, conditionTopicsMax: 0),
            { outcome in
                if !isValid {
                    #expect(refusal(outcome) == .invalidArgument)
                } else if exists {
                    #expect(refusal(outcome) == .alreadyExists)
                } else if case .project(let project) = outcome {
                    self.numbers[id] = project.number
                } else {
                    throw Unexpected(outcome)
                }
            }
        )
    }

    private func register() -> (Command, (Outcome) throws -> Void) {
        let project = random.chance(3) ? "unknown" : anyProject()!
        let app = random.chance(3) ? "bad name" : ["com.a", "com.b"].randomElement(using: &random)!
        let platform = Platform.allCases.randomElement(using: &random)!
        let new = bench.newInstance(in: project, app: app, platform: platform)
        return (
            .register(new),
            { outcome in
                if project == "unknown" {
                    #expect(refusal(outcome) == .notFound)
                } else if app == "bad name" {
                    #expect(refusal(outcome) == .invalidArgument)
                } else if case .registered(let instance, _) = outcome {
                    self.model.devices[new.token.text] = Model.Device(
                        project: project, app: app, platform: platform)
                    self.instances[new.token.text] = instance
                } else {
                    throw Unexpected(outcome)
                }
            }
        )
    }

    private func unregister() -> (Command, (Outcome) throws -> Void)? {
        guard let token = anyToken() else { return nil }
        let instance = instances[token]!
        // Leaving takes a number, so that whoever has the ordinal next begins above it.
        if let device = model.devices[token] { model.projects[device.project, default: 0] += 1 }
        model.devices[token] = nil
        retired.append(token)
        return (
            .unregister(project: instance.project, ordinal: instance.ordinal),
            { outcome in
                guard case .unregistered(let project, let ordinal, _) = outcome else {
                    throw Unexpected(outcome)
                }
                #expect(project == instance.project && ordinal == instance.ordinal)
            }
        )
    }

    private func topicText() -> (text: String, name: String?) {
        var text = anyTopic()
        if random.chance(5) {
            text = ["", "with blank", "é", "/topics/", "a/b"].randomElement(using: &random)!
        }
        if random.chance(20) { text = "/topics/" + text }
        return (text, Model.isTopicName(text))
    }

    private func deviceChange() -> (Command, (Outcome) throws -> Void)? {
        guard let token = anyToken() else { return nil }
        let instance = instances[token]!
        let operation: TopicOperation = random.chance(60) ? .subscribe : .unsubscribe
        let topics = (0..<random.number(1...6)).map { _ in topicText() }
        var failures: [TopicChangeResult.Failure] = []
        for (index, topic) in topics.enumerated() {
            guard let name = topic.name else {
                failures.append(.init(index: index, word: .invalidArgument))
                continue
            }
            switch operation {
            case .subscribe: model.devices[token]!.topics.insert(name)
            case .unsubscribe: model.devices[token]!.topics.remove(name)
            }
        }
        let expected = TopicChangeResult(
            successCount: topics.count - failures.count, failures: failures)
        return (
            .changeTopics(
                project: instance.project, ordinal: instance.ordinal, change: operation,
                topics: topics.map(\.text)),
            { outcome in
                guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
                #expect(result == expected)
            }
        )
    }

    private func senderChange() -> (Command, (Outcome) throws -> Void)? {
        guard let project = anyProject() else { return nil }
        let operation: TopicOperation = random.chance(60) ? .subscribe : .unsubscribe
        let topic = topicText()
        var tokens: [String] = []
        for _ in 0..<random.number(0...40) {
            switch random.number(0...19) {
            case 0: tokens.append("no token")
            case 1: tokens.append(String(repeating: "A", count: 32))
            case 2: tokens.append(retired.randomElement(using: &random) ?? "none")
            default: if let token = anyToken() { tokens.append(token) }
            }
        }
        if random.chance(1) { tokens = Array(repeating: tokens.first ?? "x", count: 1001) }
        let isRefused = tokens.isEmpty || tokens.count > 1000 || topic.name == nil
        var failures: [TopicChangeResult.Failure] = []
        if !isRefused, let name = topic.name {
            for (index, token) in tokens.enumerated() {
                if token.utf8.count != 32 {
                    failures.append(.init(index: index, word: .invalidArgument))
                } else if model.devices[token]?.project != project {
                    failures.append(.init(index: index, word: .notFound))
                } else if operation == .subscribe {
                    model.devices[token]!.topics.insert(name)
                } else {
                    model.devices[token]!.topics.remove(name)
                }
            }
        }
        let expected = TopicChangeResult(
            successCount: tokens.count - failures.count, failures: failures)
        return (
            .changeTopic(
                project: number(of: project), topic: topic.text, change: operation, tokens: tokens),
            { outcome in
                if isRefused {
                    #expect(refusal(outcome) == .invalidArgument)
                } else if case .topicsChanged(let result) = outcome {
                    #expect(result == expected)
                } else {
                    throw Unexpected(outcome)
                }
            }
        )
    }

    private func send() -> (Command, (Outcome) throws -> Void)? {
        guard let project = anyProject() else { return nil }
        let target: SendCommand.Target
        var recipients: Set<String> = []
        var word: ErrorWord?
        var from = "99"
        switch random.number(0...2) {
        case 0:
            let token = random.chance(10) ? retired.randomElement(using: &random) : anyToken()
            guard let token else { return nil }
            target = .token(token)
            if let owner = model.devices[token]?.project {
                if owner == project { recipients = [token] } else { word = .senderIDMismatch }
            } else {
                word = .unregistered
            }
        case 1:
            let topic = topicText()
            target = .topic(topic.text)
            if let name = topic.name {
                recipients = model.subscribers(of: name, in: project)
                from = "/topics/" + name
            } else {
                word = .invalidArgument
            }
        default:
            let names = (0..<random.number(1...6)).map { _ in anyTopic() }
            let condition = Expression.random(of: names, depth: 3, &random)
            target = .condition(condition.text)
            if condition.names.count > 5 || condition.text.utf8.count > 4096 {
                word = .invalidArgument
            } else {
                recipients = model.matching(condition, in: project)
            }
        }
        bodies += 1
        let body = Array("body \(bodies)".utf8)
        let isValidateOnly = random.chance(5)
        let timeToLive: UInt32? =
            random.chance(70)
            ? nil
            : [0, 60, 2_419_200, 2_419_201]
                .randomElement(using: &random)!
        if timeToLive == 2_419_201 { word = .invalidArgument }
        var sequence: UInt64 = 0
        if word == nil, !isValidateOnly, timeToLive != 0 {
            sequence = model.projects[project]! + 1
            model.projects[project] = sequence
            let expires =
                bench.now.millisecondsSince1970 + Int64(timeToLive ?? 2_419_200) * 1000
            for token in recipients {
                model.devices[token]!.mailbox.append(
                    Model.Message(sequence: sequence, expires: expires, from: from, body: body))
            }
        }
        let expectedTokens = recipients
        let expectedWord = word
        return (
            .send(
                project: number(of: project),
                message: SendCommand(
                    target: target, body: body,
                    lifespan: timeToLive.map { .seconds($0) } ?? .longest,
                    validateOnly: isValidateOnly)),
            { outcome in
                if let expectedWord {
                    #expect(refusal(outcome) == expectedWord)
                    return
                }
                guard case .accepted(let acceptance, let fanouts) = outcome else {
                    throw Unexpected(outcome)
                }
                let fanout = fanouts.first
                #expect(fanouts.count <= 1)
                #expect(acceptance.recipientCount == UInt64(expectedTokens.count))
                if isValidateOnly {
                    #expect(acceptance.messageNumber == 0 && fanout == nil)
                } else if timeToLive != 0 {
                    #expect(acceptance.messageNumber == sequence)
                }
                #expect((fanout != nil) == (!isValidateOnly && !expectedTokens.isEmpty))
                guard let fanout else { return }
                var reached: [UInt32] = []
                switch fanout.recipients {
                case .one(let ordinal): reached = [ordinal.rawValue]
                case .many(let set):
                    for index in 0..<set.view.blockCount {
                        let block = set.view.block(at: index)
                        block.view.forEachBit { reached.append(block.block << 15 | UInt32($0)) }
                    }
                }
                let expected = expectedTokens.map { self.instances[$0]!.ordinal.rawValue }
                #expect(reached == expected.sorted())
            }
        )
    }

    private func acknowledge() -> (Command, (Outcome) throws -> Void)? {
        guard let token = anyToken() else { return nil }
        let instance = instances[token]!
        let last = Int(model.projects[model.devices[token]!.project]!)
        let through = random.chance(50) ? 0 : random.number(0...last)
        let single =
            random.chance(50)
            ? [] : (0..<random.number(1...3)).map { _ in UInt64(random.number(0...last)) }
        model.devices[token]!.mailbox.removeAll {
            $0.sequence <= UInt64(through) || single.contains($0.sequence)
        }
        return (
            .acknowledge([
                Acknowledgement(
                    project: instance.project, ordinal: instance.ordinal,
                    through: .even(UInt64(through)), single: single)
            ]),
            { outcome in
                guard case .done = outcome else { throw Unexpected(outcome) }
            }
        )
    }

    // MARK: Checkpoints

    func checkpoint() throws {
        try bench.expectClean()
        #expect(
            Set(
                sortedTokens.map {
                    [instances[$0]!.project.rawValue, instances[$0]!.ordinal.rawValue]
                }
            )
            .count == model.devices.count, "two instances share an ordinal")
        for project in numbers.keys.sorted() { try compare(project) }
        for token in sortedTokens {
            let instance = instances[token]!
            let device = model.devices[token]!
            let now = bench.now.millisecondsSince1970
            let expected = device.mailbox.filter { $0.expires > now }.map {
                Waiting(sequence: $0.sequence, from: $0.from, body: $0.body)
            }
            #expect(try bench.pending(instance) == expected)
            #expect(try topics(of: instance, pageSize: 3) == device.topics.sorted(by: byBytes))
        }
        for token in retired {
            let found = try bench.store.read { (transaction) throws in
                try transaction.instances.locate(Token(text: token)!)
            }
            #expect(found == nil)
        }
    }

    private func byBytes(_ a: String, _ b: String) -> Bool {
        a.utf8.lexicographicallyPrecedes(b.utf8)
    }

    private func topics(of instance: Instance, pageSize: Int) throws -> [String] {
        var names: [String] = []
        while true {
            let page = try bench.store.read { (transaction) throws in
                try Listing.topics(
                    of: instance.ordinal, in: instance.project, after: names.last ?? "",
                    limit: pageSize, transaction)
            }
            names += page.entries.map(\.name.text)
            if !page.hasMore { return names }
        }
    }

    private func compare(_ project: String) throws {
        let number = number(of: project)
        var listed: [String: Int] = [:]
        var names: [String] = []
        while true {
            let page = try bench.store.read { (transaction) throws in
                try Listing.topics(in: number, after: names.last ?? "", limit: 2, transaction)
            }
            names += page.entries.map(\.name.text)
            for topic in page.entries { listed[topic.name.text] = Int(topic.subscriberCount) }
            if !page.hasMore { break }
        }
        #expect(listed == model.topics(in: project))
        #expect(names.count == listed.count, "a topic is listed twice")
        // Names are in order as far as their first 440 bytes go.
        let heads = names.map { String($0.prefix(440)) }
        #expect(heads == heads.sorted(by: byBytes))
        for topic in topicPool {
            let tokens = try bench.members(of: topic, in: number)
            #expect(Set(tokens.map(\.text)) == model.subscribers(of: topic, in: project))
            #expect(Set(tokens).count == tokens.count)
        }
        for _ in 0..<3 {
            let names = (0..<4).map { _ in anyTopic() }
            let condition = Expression.random(of: names, depth: 2, &random)
            guard condition.text.utf8.count <= 4096 else { continue }
            let tokens = model.matching(condition, in: project)
            let audience = try bench.store.read { (transaction) throws in
                try Audience(of: condition.text, in: number, SharedPrograms(), transaction)
            }
            #expect(audience.total == UInt64(tokens.count))
            for platform in Platform.allCases {
                let count = tokens.filter { model.devices[$0]!.platform == platform }.count
                #expect(audience.perPlatform[platform, default: 0] == UInt64(count))
            }
            for app in ["com.a", "com.b"] {
                for platform in Platform.allCases {
                    let count = tokens.filter {
                        model.devices[$0]!.platform == platform && model.devices[$0]!.app == app
                    }.count
                    let found = audience.perApp.filter {
                        $0.app.name == app && $0.app.platform == platform
                    }
                    #expect(found.reduce(0) { $0 + $1.count } == UInt64(count))
                }
            }
        }
    }
}

@Suite("Histories beside a naive model")
struct HistoryTests {
    @Test(
        "TOP-4 TOP-5 TOP-7 TOP-9 CON-4 CON-5 CON-8 CON-10 CON-11 MSG-6 MSG-7 TTL-3 TTL-4: a random history leads where the naive model leads",
        arguments: 1...rounds(12) as ClosedRange<UInt64>)
    func history(seed: UInt64) throws {
        let history = try History(seed: seed, longNames: seed % 2 == 0)
        for step in 1...240 {
            try history.step()
            if step % 60 == 0 { try history.checkpoint() }
        }
        #expect(history.retired.count > 20, "the history was too quiet to prove anything")
    }
}
