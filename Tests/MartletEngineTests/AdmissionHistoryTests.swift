// SPDX-License-Identifier: Apache-2.0
//
// Random histories of registrations beside a naive model: policies, keys, tickets and apps change, and each outcome
// is compared when it comes. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// One history of one project.
private final class AdmissionHistory {
    private struct App: Hashable {
        var name: String
        var platform: Platform
    }

    private let bench: Bench
    private var random: SeededGenerator
    private let project: ProjectNumber
    // The model.
    private var policy = RegistrationPolicy.key
    private var topics = TopicPolicy.all
    private var keys: [String: Bool] = [:]
    private var ticketKeys: [String: Bool] = [:]
    private var spent: [UInt8: Instant] = [:]
    private var apps: [App: [Instance]] = [:]
    private var grants: [Token: [String]] = [:]
    /// By token, the places of the topics that the device has joined, in the list of `subscribe`.
    private var joined: [Token: Set<Int>] = [:]

    init(seed: UInt64) throws {
        bench = Bench()
        random = SeededGenerator(seed: seed)
        project = try bench.project("tides")
    }

    func step() throws {
        switch random.number(0...99) {
        case ..<3: try changePolicy()
        case ..<8: try changeKeys()
        case ..<16: try changeApps()
        case ..<70: try register()
        case ..<78: try unregister()
        case ..<92: try subscribe()
        default:
            bench.now = bench.now.advanced(bySeconds: Int64(random.number(1...40)))
            spent = spent.filter { $0.value > bench.now }
            try bench.sweep()
            #expect(try bench.rowCounts([.spentTickets]) == [spent.count])
        }
        if random.chance(5) { try bench.reopen() }
    }

    func expectEqual() throws {
        let instances = apps.values.map(\.count).reduce(0, +)
        #expect(try bench.rowCounts([.instances]) == [instances])
        let project = project
        let names = try bench.store.read { (transaction) throws in
            guard let project = try transaction.projects.project(project) else {
                return Set<App>()
            }
            return Set(
                try transaction.apps.apps(of: project).map {
                    App(name: $0.app.name, platform: $0.app.platform)
                })
        }
        #expect(names == Set(apps.keys))
        try bench.expectClean()
    }

    private func changePolicy() throws {
        policy = RegistrationPolicy.allCases.randomElement(using: &random)!
        let choices: [TopicPolicy] = [.all, .noTopics, .prefixes(["a", "b."])]
        topics = choices.randomElement(using: &random)!
        try bench.change(.policies(registration: policy, topics: topics))
    }

    private func changeKeys() throws {
        let number = UInt8(random.number(1...4))
        if random.chance(50) {
            let id = "key\(number)"
            if keys[id] == nil {
                try bench.addKey(number)
                keys[id] = true
            } else {
                try bench.change(.revokeRegistrationKey(id: id))
                keys[id] = false
            }
        } else {
            let id = "k\(number)"
            if ticketKeys[id] == nil {
                try bench.addTicketKey(id)
                ticketKeys[id] = true
            } else {
                try bench.change(.revokeTicketKey(id: id))
                ticketKeys[id] = false
            }
        }
    }

    private func anyApp() -> App {
        App(
            name: ["one", "two", "three"].randomElement(using: &random)!,
            platform: random.chance(50) ? .android : .web)
    }

    private func changeApps() throws {
        let app = anyApp()
        if random.chance(70) {
            let word = refusal(
                try bench.change(.createApp(name: app.name, platform: app.platform)))
            #expect(word == (apps[app] == nil ? nil : .alreadyExists))
            if apps[app] == nil { apps[app] = [] }
        } else {
            let word = refusal(
                try bench.change(.deleteApp(name: app.name, platform: app.platform)))
            #expect(word == (apps[app] == nil ? .notFound : nil))
            let outcomes = try bench.advance()
            #expect(outcomes.count == apps.removeValue(forKey: app)?.count ?? 0)
        }
    }

    private func register() throws {
        let app = anyApp()
        let number = UInt8(random.number(1...4))
        let named = random.chance(40) ? ["c.x", "d*"] : []
        let ticket = UInt8(random.number(0...30))
        let proofs: [(RegistrationProof, Bool)] = [
            (.none, policy == .open),
            (
                .key(id: "key\(number)", digest: Bench.digest(number)),
                policy == .open || policy == .key && keys["key\(number)"] == true
            ),
            (.key(id: "key\(number)", digest: Bench.digest(9)), policy == .open),
            (
                bench.ticket(ticket, key: "k\(number)", topics: named),
                policy == .open
                    || policy == .ticket && ticketKeys["k\(number)"] == true && spent[ticket] == nil
            ),
            (.trusted, true),
        ]
        let index = random.number(0...4)
        let (proof, isRight) = proofs[index]
        var new = bench.newInstance(in: "tides", app: app.name, platform: app.platform)
        new.proof = proof
        let isAdmitted = isRight && (policy != .open || apps[app] != nil || index == 4)
        let before = try bench.allRowCounts()
        switch try bench.apply(.register(new)) {
        case .registered(let instance, _):
            #expect(isAdmitted)
            apps[app, default: []].append(instance)
            if case .ticket(let used) = proof, policy == .ticket {
                spent[ticket] = used.expires
                grants[instance.token] = used.topics
            }
        case .refused(let error):
            #expect(!isAdmitted && error.word == .permissionDenied)
            #expect(try bench.allRowCounts() == before)
        case let outcome: throw Unexpected(outcome)
        }
    }

    private func anyInstance() -> (App, Int)? {
        let all = apps.filter { !$0.value.isEmpty }.keys.sorted {
            ($0.name, $0.platform.rawValue) < ($1.name, $1.platform.rawValue)
        }
        return all.randomElement(using: &random).map {
            ($0, random.number(0...(apps[$0]!.count - 1)))
        }
    }

    private func unregister() throws {
        guard let (app, index) = anyInstance() else { return }
        let instance = apps[app]!.remove(at: index)
        _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
    }

    private func subscribe() throws {
        guard let (app, index) = anyInstance() else { return }
        let instance = apps[app]![index]
        let result = try bench.deviceChange(.subscribe, ["a1", "b.2", "c.x", "d"], instance)
        let named = grants[instance.token] ?? []
        let forbidden: Set<Int> =
            switch topics {
            case .all: []
            case .noTopics: named.isEmpty ? [0, 1, 2, 3] : [0, 1]
            case .prefixes: named.isEmpty ? [2, 3] : []
            }
        // A subscription that exists may be repeated.
        let expected = forbidden.subtracting(joined[instance.token] ?? [])
        joined[instance.token] = Set(0..<4).subtracting(expected)
        #expect(Set(result.failures.map(\.index)) == expected)
        #expect(result.failures.allSatisfy { $0.word == .permissionDenied })
    }
}

@Suite("Histories of registrations")
struct AdmissionHistoryTests {
    @Test(
        "REG-7 REG-8 TOP-10: histories agree with a naive model",
        arguments: 0..<rounds(20) as Range<UInt64>)
    func histories(seed: UInt64) throws {
        let history = try AdmissionHistory(seed: seed)
        for step in 0..<400 {
            try history.step()
            if step % 50 == 49 { try history.expectEqual() }
        }
    }
}
