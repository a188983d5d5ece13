// SPDX-License-Identifier: Apache-2.0
//
// Acknowledgements that come together are counted together, fanout by fanout: in which order and in what
// company they come makes no difference. Compared with a count that looks at one instance and one message
// at a time. Rests on Bench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Acknowledgements that come together")
struct PassTests {
    /// More than a block of ordinals.
    static let instanceCount = BlockGeometry.bitsPerBlock + 400

    @Test(
        "REP-1: each fanout is counted once for whoever acknowledges it, alone or among thousands",
        arguments: [1, 2, 3] as [UInt64])
    func counted(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try register(in: bench)
        let topics = try subscribe(instances, in: project, bench, &random)
        var model = PassModel(instances)
        for _ in 0..<6 {
            for _ in 0..<random.number(1...20) {
                let (topic, recipients) = topics[random.number(0...(topics.count - 1))]
                let priority: MessagePriority = random.chance(50) ? .high : .normal
                let outcome = try bench.apply(
                    .send(
                        project: project,
                        message: SendCommand(
                            target: .topic(topic), body: [7], priority: priority)))
                guard case .accepted(let acceptance, _) = outcome else { throw Unexpected(outcome) }
                let lane = Lane(priority, isCollapsible: false)
                model.sent(acceptance.messageNumber, lane, recipients)
            }
            let size = [1, 7, 200, 5000][random.number(0...3)]
            var batch: [Acknowledgement] = []
            for _ in 0..<size {
                let at = random.number(0...(instances.count - 1))
                batch.append(model.acknowledge(at, &random))
                if random.chance(3) { batch.append(model.acknowledge(at, &random)) }
            }
            var outcome = try bench.apply(.acknowledge(batch))
            while case .unfinished(let rest) = outcome { outcome = try bench.apply(rest) }
        }
        try compare(model, in: project, bench)
        try bench.expectClean()
    }

    @Test(
        "TTL-4 FAN-2: who acknowledges thousands at once is a step in each transaction, and who leaves with that is none",
        arguments: [true, false])
    func stepped(isFanout: Bool) throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(70, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        let count: UInt64 = 6000
        for index in 0..<2 {
            let target = SendCommand.Target.token(instances[index].token.text)
            let all = Command.send(
                project: project,
                message: SendCommand(target: isFanout ? .topic("all") : target, body: [7]))
            _ = try bench.apply(Array(repeating: all, count: Int(count)))
        }
        func through(_ instance: Instance) throws -> UInt64 {
            try bench.mailbox(instance).state.acknowledged.lowest.rawValue
        }
        var outcome = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: instances[0].ordinal, through: .even(count))
            ]))
        var steps: [UInt64] = []
        while case .unfinished(let rest) = outcome {
            steps.append(try through(instances[0]))
            outcome = try bench.apply(rest)
        }
        #expect(steps.count > 1)
        #expect(steps == Set(steps).sorted(), "a step did nothing")
        #expect(try through(instances[0]) == count)
        let departure = Acknowledgement.Departure(
            connectionNumber: 1, position: MessageSequence(2 * count),
            throttleFull: bench.now, seen: bench.now)
        try bench.acknowledge(instances[1], 2 * count, departure: departure)
        #expect(try through(instances[1]) == 2 * count)
        let now = bench.now
        for sequence in [1, count / 2, count, count + 1, 2 * count] {
            let report = try bench.store.read { (transaction) throws in
                try transaction.reporting.report(
                    of: MessageSequence(sequence), in: project, limits: .none, now: now)
            }
            let taken = isFanout && sequence <= count ? 2 : 1
            #expect(report?.counts[.acknowledged] == UInt64(taken))
        }
        try bench.expectClean()
    }

    @Test(
        "TTL-4: of what devices list when they connect, no more than the bound is applied at once")
    func lists() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(6, in: "tides")
        let connected = instances.map {
            Command.connected(
                project: project, ordinal: $0.ordinal, holder: $0.holder,
                connection: ConnectionStart(number: 1, position: .none))
        }
        // Four of them have 4000 together. The last one would fit, but not in its place.
        let lists = zip(instances, [1000, 1000, 1000, 1000, 1000, 10]).map { instance, count in
            Acknowledgement(
                project: project, ordinal: instance.ordinal, through: LaneMarks(.none),
                single: Array(1...count))
        }
        let outcomes = try bench.apply(connected + [.acknowledge(lists)]) { true }
        guard case .unfinished(.acknowledge(let rest, _))? = outcomes.last else {
            throw Unexpected(outcomes.last ?? .done)
        }
        #expect(rest.map(\.ordinal) == instances[4...].map(\.ordinal))
        #expect(rest.map(\.single.count) == [1000, 10])
        var outcome = try bench.apply(.acknowledge(rest))
        while case .unfinished(let rest) = outcome { outcome = try bench.apply(rest) }
        try bench.expectClean()
    }

    private func register(in bench: Bench) throws -> [Instance] {
        var instances: [Instance] = []
        for start in stride(from: 0, to: Self.instanceCount, by: 8192) {
            let commands = (start..<min(start + 8192, Self.instanceCount)).map {
                Command.register(
                    bench.newInstance(in: "tides", app: $0 % 3 == 0 ? "com.example.moon" : "com.a"))
            }
            for outcome in try bench.apply(commands) {
                guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
                instances.append(instance)
            }
        }
        return instances
    }

    /// Large and small topics, some of them only in one block.
    private func subscribe(
        _ instances: [Instance], in project: ProjectNumber, _ bench: Bench,
        _ random: inout SeededGenerator
    ) throws -> [(name: String, members: [Int])] {
        var topics: [(name: String, members: [Int])] = []
        for (number, size) in [65, 90, 200, 3000, 20_000].enumerated() {
            let isEnd = number == 1
            let from = isEnd ? BlockGeometry.bitsPerBlock : 0
            let all = (from..<instances.count).shuffled(using: &random).prefix(size).sorted()
            let name = "t\(number)"
            try bench.change(.subscribe, name, all.map { instances[$0] }, in: project)
            topics.append((name, all))
        }
        return topics
    }

    private func compare(_ model: PassModel, in project: ProjectNumber, _ bench: Bench) throws {
        let now = bench.now
        var byApp: [AppNumber: UInt64] = [:]
        for message in model.messages {
            let counts = try bench.store.read { (transaction) throws in
                try transaction.reporting.report(
                    of: MessageSequence(message.sequence), in: project, limits: .none, now: now)
            }
            let taken = model.taken(message)
            #expect(counts?.counts[.acknowledged] == UInt64(taken.count))
            for at in taken { byApp[model.instances[at].app, default: 0] += 1 }
        }
        let days = try bench.store.read { (transaction) throws in
            try transaction.reporting.reportDays(now.day...now.day, in: project)
        }
        for day in days {
            #expect(day.counts[.acknowledged] == byApp[day.app.number, default: 0])
        }
    }
}

/// Who has acknowledged what, one instance and one message at a time.
private struct PassModel {
    struct Sent {
        let sequence: UInt64
        let lane: Lane
        let recipients: [Int]
    }

    let instances: [Instance]
    private(set) var messages: [Sent] = []
    private var marks: [Int: LaneMarks] = [:]

    init(_ instances: [Instance]) { self.instances = instances }

    mutating func sent(_ sequence: UInt64, _ lane: Lane, _ recipients: [Int]) {
        messages.append(Sent(sequence: sequence, lane: lane, recipients: recipients))
    }

    /// An instance's marks move on, in one lane or in all.
    mutating func acknowledge(
        _ at: Int, _ random: inout SeededGenerator
    ) -> Acknowledgement {
        let last = messages.last?.sequence ?? 0
        let to = MessageSequence(UInt64(random.number(0...Int(last))))
        var mark = marks[at] ?? LaneMarks(.none)
        if random.chance(50) {
            mark.formMaximum(LaneMarks(to))
        } else {
            let lane = Lane(random.chance(50) ? .high : .normal, isCollapsible: false)
            mark[lane] = max(mark[lane], to)
        }
        marks[at] = mark
        return Acknowledgement(
            project: instances[at].project, ordinal: instances[at].ordinal, through: mark)
    }

    func taken(_ message: Sent) -> [Int] {
        message.recipients.filter { (marks[$0]?[message.lane].rawValue ?? 0) >= message.sequence }
    }
}
