// SPDX-License-Identifier: Apache-2.0
//
// Random histories of groups beside a naive model: devices come, go and get other tokens,
// groups are made, changed and sent to, transactions fail and the broker begins anew. The model keeps
// names and device numbers in dictionaries and shares no code. Rests on Support.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// What groups should be.
private struct GroupModel {
    struct Device {
        var project: String
        var token: String
        /// REG-4: the last four before it.
        var formerTokens: [String] = []

        func isNamed(by tokens: [String]) -> Bool {
            !Set(tokens).isDisjoint(with: formerTokens + [token])
        }
    }

    struct Group {
        var key: String
        /// Devices, in the order in which they joined.
        var members: [Int]
    }

    /// By number, those that are registered.
    var devices: [Int: Device] = [:]
    /// By project and name.
    var groups: [String: [String: Group]] = [:]

    func device(_ token: String) -> Int? { devices.first { $0.value.token == token }?.key }

    /// The index of the first token that may not join, and why.
    func fault(in tokens: [String], of project: String) -> (Int, ErrorWord)? {
        for (index, token) in tokens.enumerated() {
            guard token.count == 32 else { return (index, .invalidArgument) }
            guard let device = device(token) else { return (index, .unregistered) }
            if devices[device]!.project != project { return (index, .senderIDMismatch) }
        }
        return nil
    }

    mutating func leave(_ device: Int) {
        for (project, named) in groups {
            for name in named.keys {
                groups[project]![name]!.members.removeAll { $0 == device }
                if groups[project]![name]!.members.isEmpty { groups[project]![name] = nil }
            }
        }
    }
}

private final class GroupHistory {
    let bench: Bench
    var model = GroupModel()
    var random: SeededGenerator
    var numbers: [String: ProjectNumber] = [:]
    var instances: [Int: Instance] = [:]
    var retired: [String] = [String(repeating: "A", count: 32)]
    var keyCount: UInt64 = 0
    var lastDevice = 0
    var (applied, refused) = (0, 0)

    init(seed: UInt64) throws {
        bench = Bench()
        random = SeededGenerator(seed: seed)
        for id in ["one", "two"] { numbers[id] = try bench.project(id) }
    }

    private func anyProject() -> String { random.chance(75) ? "one" : "two" }
    private func anyName() -> String {
        ["a", "b", "c d", "ä", "e"].randomElement(using: &random)!
    }
    private func anyDevice() -> Int? {
        model.devices.keys.sorted().randomElement(using: &random)
    }

    private func anyTokens() -> [String] {
        (0..<random.number(1...(random.chance(10) ? 40 : 6))).compactMap { _ in
            switch random.number(0...59) {
            case 0: "no token"
            case 1...2: retired.randomElement(using: &random)
            default: anyDevice().map { model.devices[$0]!.token }
            }
        }
    }

    // MARK: Steps

    func step() throws {
        let count = random.number(1...4)
        for _ in 0..<count {
            guard let (command, check) = makeCommand() else { continue }
            // A transaction that fails leaves nothing behind; then it is applied after all.
            if random.chance(10) { try bench.applyInVain([command]) }
            try check(try bench.apply(command))
        }
        if random.chance(2) { try bench.reopen() }
    }

    private func makeCommand() -> (Command, (Outcome) throws -> Void)? {
        switch random.number(0...99) {
        case ..<22: return register()
        case ..<30: return unregister()
        case ..<38: return rotate()
        case ..<55: return create()
        case ..<75: return change(.add)
        case ..<88: return change(.remove)
        default: return send()
        }
    }

    private func register() -> (Command, (Outcome) throws -> Void) {
        let project = anyProject()
        return (
            .register(bench.newInstance(in: project)),
            { outcome in
                guard case .registered(let instance, _) = outcome else {
                    throw Unexpected(outcome)
                }
                self.lastDevice += 1
                self.instances[self.lastDevice] = instance
                self.model.devices[self.lastDevice] = .init(
                    project: project, token: instance.token.text)
            }
        )
    }

    private func unregister() -> (Command, (Outcome) throws -> Void)? {
        guard let device = anyDevice() else { return nil }
        let instance = instances[device]!
        return (
            .unregister(project: instance.project, ordinal: instance.ordinal),
            { outcome in
                guard case .unregistered = outcome else { throw Unexpected(outcome) }
                self.retired.append(self.model.devices[device]!.token)
                self.model.devices[device] = nil
                self.model.leave(device)
            }
        )
    }

    private func rotate() -> (Command, (Outcome) throws -> Void)? {
        guard let device = anyDevice() else { return nil }
        let instance = instances[device]!
        let token = Token(words: (random.next(), random.next(), random.next()))
        return (
            .rotate(
                project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                token: token),
            { outcome in
                guard case .rotated = outcome else { throw Unexpected(outcome) }
                self.retired.append(self.model.devices[device]!.token)
                let before = self.model.devices[device]!
                self.model.devices[device]!.formerTokens = Array(
                    (before.formerTokens + [before.token]).suffix(4))
                self.model.devices[device]!.token = token.text
            }
        )
    }

    private func create() -> (Command, (Outcome) throws -> Void) {
        let (project, name, tokens) = (anyProject(), anyName(), anyTokens())
        keyCount += 1
        let key = GroupKey(bytes: [UInt8](repeating: 9, count: 16) + little(keyCount))
        return (
            .createGroup(project: numbers[project]!, name: name, key: key, tokens: tokens),
            { outcome in
                guard self.model.groups[project]?[name] == nil else {
                    return try self.expect(outcome, .alreadyExists, "name")
                }
                let none = GroupModel.Group(key: key.text, members: [])
                try self.expectJoin(outcome, project, name, none, tokens)
            }
        )
    }

    private func change(_ operation: GroupOperation) -> (Command, (Outcome) throws -> Void) {
        let (project, name, tokens) = (anyProject(), anyName(), anyTokens())
        let known = model.groups[project]?[name]
        let isWrongKey = random.chance(5)
        let key =
            isWrongKey
            ? GroupKey(bytes: [UInt8](repeating: 1, count: 24)).text
            : known?.key ?? GroupKey(bytes: [UInt8](repeating: 2, count: 24)).text
        return (
            .changeGroup(
                project: numbers[project]!, name: name, key: key, change: operation,
                tokens: tokens),
            { outcome in
                guard var group = known else { return try self.expect(outcome, .notFound, "name") }
                if isWrongKey { return try self.expect(outcome, .invalidArgument, "key") }
                if operation == .add {
                    return try self.expectJoin(outcome, project, name, group, tokens)
                }
                if tokens.isEmpty { return try self.expect(outcome, .invalidArgument, "tokens") }
                if let index = tokens.firstIndex(where: { $0.count != 32 }) {
                    return try self.expect(outcome, .invalidArgument, "tokens[\(index)]")
                }
                group.members.removeAll {
                    self.model.devices[$0]!.project == project
                        && self.model.devices[$0]!.isNamed(by: tokens)
                }
                self.model.groups[project]![name] = group.members.isEmpty ? nil : group
                try self.expect(outcome, name, group)
            }
        )
    }

    private func expectJoin(
        _ outcome: Outcome, _ project: String, _ name: String, _ before: GroupModel.Group,
        _ tokens: [String]
    ) throws {
        if tokens.isEmpty { return try expect(outcome, .invalidArgument, "tokens") }
        if let (index, word) = model.fault(in: tokens, of: project) {
            return try expect(outcome, word, "tokens[\(index)]")
        }
        var group = before
        for token in tokens {
            let device = model.device(token)!
            if !group.members.contains(device) { group.members.append(device) }
        }
        guard group.members.count <= 20 else {
            return try expect(outcome, .invalidArgument, "tokens")
        }
        model.groups[project, default: [:]][name] = group
        try expect(outcome, name, group)
    }

    private func expect(_ outcome: Outcome, _ word: ErrorWord, _ field: String) throws {
        guard case .refused(let error) = outcome else { throw Unexpected(outcome) }
        #expect(error.word == word && error.field == field)
        refused += 1
    }

    private func expect(_ outcome: Outcome, _ name: String, _ group: GroupModel.Group) throws {
        guard case .group(let found) = outcome else { throw Unexpected(outcome) }
        #expect(found.name.text == name && found.key.text == group.key)
        #expect(found.tokens.map(\.text) == group.members.map { model.devices[$0]!.token })
        applied += 1
    }

    private func send() -> (Command, (Outcome) throws -> Void) {
        let (project, name) = (anyProject(), anyName())
        let known = model.groups[project]?[name]
        let key = known?.key ?? GroupKey(bytes: [UInt8](repeating: 2, count: 24)).text
        let members = known?.members ?? []
        return (
            .send(
                project: numbers[project]!, message: SendCommand(target: .group(key), body: [1])),
            { outcome in
                guard case .accepted(let acceptance, let fanouts) = outcome else {
                    throw Unexpected(outcome)
                }
                #expect(
                    acceptance.named == .group(successCount: members.count, failures: []))
                #expect(
                    Set(fanouts.flatMap(\.recipients.ordinals))
                        == Set(members.map { self.instances[$0]!.ordinal.rawValue }))
                #expect(fanouts.count == min(members.count, 1))
            }
        )
    }

    // MARK: Checkpoints

    func checkpoint() throws {
        try bench.expectClean()
        for (project, number) in numbers {
            let expected = model.groups[project] ?? [:]
            let page = try bench.store.read { (transaction) throws in
                try Listing.groups(in: number, after: "", limit: 100, transaction)
            }
            #expect(page.entries.map(\.name.text).sorted() == expected.keys.sorted())
            for (name, group) in expected {
                let found = try bench.store.read { (transaction) throws in
                    try Listing.group(named: name, in: number, transaction)
                }
                #expect(found.key.text == group.key)
                #expect(
                    found.tokens.map(\.text) == group.members.map { model.devices[$0]!.token })
            }
        }
    }
}

@Suite("Histories of groups beside a naive model")
struct GroupHistoryTests {
    @Test(
        "GRP-1 GRP-2 GRP-3 GRP-4 GRP-5 REG-3 REG-4: a random history leads where the naive model leads",
        arguments: 1...rounds(12) as ClosedRange<UInt64>)
    func history(seed: UInt64) throws {
        let history = try GroupHistory(seed: seed)
        for step in 1...400 {
            try history.step()
            if step % 40 == 0 { try history.checkpoint() }
        }
        #expect(
            history.applied > 50 && history.refused > 50,
            "the history was too quiet to prove anything")
    }
}
