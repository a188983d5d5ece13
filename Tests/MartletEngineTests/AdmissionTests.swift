// SPDX-License-Identifier: Apache-2.0
//
// How many messages to many a project may have in progress, and what becomes of the others (FAN-1,
// QUO-5). Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Fanouts in progress, deferred and refused")
struct AdmissionTests {
    private func limits(
        inProgress: Int, deferred: Int = 10_000, megabytesPerProject: Int = 0, megabytes: Int = 0
    ) -> BrokerLimits {
        var limits = BrokerLimits.none
        limits.fanoutsInProgressMax = inProgress
        limits.fanoutsDeferredMax = deferred
        limits.fanoutMegabytesPerProjectMax = megabytesPerProject
        limits.fanoutMegabytesMax = megabytes
        return limits
    }

    /// A bench with instances that are subscribed to `t`.
    private func bench(
        _ limits: BrokerLimits, instances: Int = 2
    ) throws -> (bench: SendBench, instances: [Instance]) {
        let bench = try SendBench(limits, countsFanouts: true)
        let all = try (0..<instances).map { _ in try bench.register() }
        try bench.subscribe(all, to: "t")
        return (bench, all)
    }

    private func message(
        _ n: UInt8 = 1, to topic: String = "t", lifespan: Lifespan = .longest, bytes: Int = 1
    ) -> SendCommand {
        SendCommand(
            target: .topic(topic), body: Array(repeating: n, count: bytes), lifespan: lifespan)
    }

    private func fanouts(_ outcomes: [Outcome]) -> [Fanout] {
        outcomes.flatMap { outcome -> [Fanout] in
            if case .accepted(_, let fanouts) = outcome { fanouts } else { [] }
        }
    }

    private func deferredNumbers(_ bench: SendBench) throws -> [UInt64] {
        try bench.store.read { (transaction) throws in
            try transaction.deferred.messages(in: bench.tides, after: 0, limit: .max).map(\.number)
        }
    }

    @Test(
        "FAN-1 QUO-5: 1000 messages to many are in progress; the 1001st is deferred and begins when one ends"
    )
    func thousand() throws {
        #expect(BrokerLimits().fanoutsInProgressMax == 1000)
        let (bench, instances) = try bench(limits(inProgress: 1000))
        var numbers: [UInt64] = []
        for _ in 0..<1000 {
            let (acceptance, fanouts) = try bench.accepted(message())
            #expect(acceptance.deferredPlace == 0 && fanouts.count == 1)
            numbers.append(acceptance.messageNumber)
        }
        let (first, none) = try bench.accepted(message(2))
        #expect(first.deferredPlace == 1 && first.recipientCount == 0 && none.isEmpty)
        #expect(first.messageNumber == numbers[999] + 1)
        #expect(try bench.accepted(message(3)).acceptance.deferredPlace == 2)
        #expect(try bench.advance().isEmpty)
        #expect(!bench.book!.takeRoom())
        // One instance, and nobody, are no fanout; another project has its own.
        let direct = try bench.accepted(
            SendCommand(target: .token(instances[0].token.text), body: [9]))
        try #require(direct.acceptance.deferredPlace == 0 && direct.fanouts.count == 1)
        #expect(direct.fanouts[0].progress == nil)
        _ = try bench.apply(.createProject(id: "other", senderID: 1, conditionTopicsMax: 0))
        let stranger = try bench.register(in: "other")
        try bench.subscribe([stranger], to: "t")
        let foreign = try bench.apply(.send(project: stranger.project, message: message()))
        #expect(fanouts([foreign]).count == 1)

        try bench.end(numbers[500])
        #expect(bench.book!.takeRoom())
        #expect(!bench.book!.takeRoom())
        #expect(bench.canBeginDeferred)
        let begun = fanouts(try bench.advance())
        try #require(begun.map(\.header.number) == [first.messageNumber])
        #expect(begun[0].header.sequence.rawValue > direct.acceptance.messageNumber)
        #expect(begun[0].recipients.ordinals == [0, 1])
        #expect(try bench.advance().isEmpty)
        #expect(!bench.canBeginDeferred)
        try bench.expectClean()
    }

    @Test("FAN-1: deferred messages begin in their order, and new ones wait behind them")
    func order() throws {
        let (bench, instances) = try bench(limits(inProgress: 2))
        var running = [
            try bench.accepted(message(0)).acceptance.messageNumber,
            try bench.accepted(message(1)).acceptance.messageNumber,
        ]
        for n in 2..<40 as Range<UInt8> {
            let place = try bench.accepted(message(n)).acceptance.deferredPlace
            if n % 3 == 0 {
                #expect(place > 0)
                try bench.end(running.removeFirst())
                // Room, and somebody who waits for it: nobody passes by.
                #expect(try bench.accepted(message(100 + n)).acceptance.deferredPlace == place + 1)
                running += fanouts(try bench.advance()).map(\.header.number)
            }
        }
        while !running.isEmpty {
            try bench.end(running.removeFirst())
            running += fanouts(try bench.advance()).map(\.header.number)
        }
        let expected = (0..<40 as Range<UInt8>).flatMap { n -> [[UInt8]] in
            n > 1 && n % 3 == 0 ? [[n], [100 + n]] : [[n]]
        }
        for instance in instances { #expect(try bench.mailbox(instance).bodies == expected) }
        #expect(try deferredNumbers(bench).isEmpty)
        try bench.expectClean()
    }

    @Test(
        "FAN-1: past the queue's bound a message is refused with a delay that follows the pace at which others end"
    )
    func bounded() throws {
        let (bench, _) = try bench(limits(inProgress: 1, deferred: 2))
        var running = try bench.accepted(message()).acceptance.messageNumber
        for _ in 0..<12 {
            _ = try bench.accepted(message())
            bench.wait(seconds: 0.25)
            try bench.end(running)
            running = fanouts(try bench.advance())[0].header.number
        }
        #expect(try bench.accepted(message()).acceptance.deferredPlace == 1)
        #expect(try bench.accepted(message()).acceptance.deferredPlace == 2)
        let waiting = try deferredNumbers(bench)
        let delays = try (0..<4).map { _ in
            let error = try bench.refused(message())
            #expect(error.word == .resourceExhausted)
            return error.retryDelayMilliseconds
        }
        // Who is refused later is told to come later.
        #expect(delays == [250, 500, 750, 1000])
        #expect(try deferredNumbers(bench) == waiting)
        // It is slower by now than it was.
        bench.wait(seconds: 3)
        #expect(try bench.refused(message()).retryDelayMilliseconds == 15_000)
        bench.wait(seconds: 100)
        #expect(try bench.refused(message()).retryDelayMilliseconds == 60_000)
        try bench.end(running)
        _ = try bench.advance()
        #expect(try bench.accepted(message()).acceptance.deferredPlace == 2)
        try bench.expectClean()
    }

    @Test(
        "FAN-1: a project may want what there is no room for to be refused; TTL-2: now or never needs none"
    )
    func policy() throws {
        let (bench, _) = try bench(limits(inProgress: 1))
        let (first, _) = try bench.accepted(message())
        bench.wait(seconds: 2)
        #expect(try bench.accepted(message(lifespan: .seconds(0))).fanouts.count == 1)
        guard
            case .project(let project) = try bench.apply(
                .changeProject(id: "tides", overload: .refuse))
        else { throw Surprise("no project") }
        #expect(project.overload == .refuse && project.weight == 1)
        let refused = try bench.refused(message())
        #expect(refused.word == .resourceExhausted && refused.field == "target")
        #expect(refused.retryDelayMilliseconds == 2000)
        // What is wrong with it is told first.
        #expect(try bench.refused(message(to: "no topic")).word == .invalidArgument)
        try bench.end(first.messageNumber)
        #expect(try bench.accepted(message()).fanouts.count == 1)
        try bench.restart()
        let stored = try bench.store.read { (transaction) throws in
            try transaction.projects.project(bench.tides)
        }
        #expect(stored?.overload == .refuse)
    }

    @Test("TTL-2 FAN-1: now or never has as many places again, also for a message that is written")
    func nowOrNever() throws {
        let (bench, _) = try bench(limits(inProgress: 2))
        func passing(_ key: String) -> SendCommand {
            var passing = message(lifespan: .seconds(0))
            passing.idempotencyKey = key
            return passing
        }
        // Stored messages in progress take nothing of them.
        for n in 1...2 as ClosedRange<UInt8> { _ = try bench.accepted(message(n)) }
        let (first, _) = try bench.accepted(passing("a"))
        _ = try bench.accepted(passing("b"))
        let refused = try bench.refused(passing("c"))
        #expect(refused.word == .resourceExhausted && refused.field == "target")
        #expect(refused.retryDelayMilliseconds != nil)
        // MSG-9: the repetition of an accepted message needs no place.
        #expect(try bench.accepted(passing("a")).acceptance.messageNumber == first.messageNumber)
        try bench.end(first.messageNumber)
        #expect(try bench.accepted(passing("c")).fanouts.count == 1)
        try bench.expectClean()
    }

    @Test("FAN-2: a project's weight is kept and goes with its messages; others are refused")
    func weight() throws {
        let (bench, _) = try bench(limits(inProgress: 10))
        for weight in [0, -1, 1001, .max] {
            guard
                case .refused(let error) = try bench.apply(
                    .changeProject(id: "tides", weight: weight))
            else { throw Surprise("weight \(weight)") }
            #expect(error.word == .invalidArgument && error.field == "weight")
        }
        guard
            case .refused(let unknown) = try bench.apply(.changeProject(id: "nobody", weight: 2))
        else { throw Surprise("no refusal") }
        #expect(unknown.word == .notFound)
        _ = try bench.apply(.changeProject(id: "tides", weight: 1000))
        try bench.restart()
        #expect(try bench.accepted(message()).fanouts[0].weight == 1000)
        _ = try bench.apply(.changeProject(id: "tides", overload: .refuse))
        #expect(try bench.accepted(message()).fanouts[0].weight == 1000)
        try bench.expectClean()
    }

    @Test("CON-3: how many topics a condition may name can be raised, to 64")
    func conditionTopics() throws {
        let (bench, _) = try bench(limits(inProgress: 10))
        func condition(_ count: Int) -> SendCommand {
            SendCommand(
                target: .condition(
                    (0..<count).map { "'t\($0)' in topics" }.joined(separator: " || ")), body: [1])
        }
        #expect(try bench.accepted(condition(5)).acceptance.recipientCount == 0)
        #expect(try bench.refused(condition(6)).word == .invalidArgument)
        for count in [0, -1, 65] {
            guard
                case .refused(let error) = try bench.apply(
                    .changeProject(id: "tides", conditionTopicsMax: count))
            else { throw Surprise("\(count) topics") }
            #expect(error.word == .invalidArgument && error.field == "topics_per_condition")
        }
        _ = try bench.apply(.changeProject(id: "tides", conditionTopicsMax: 64))
        _ = try bench.apply(.changeProject(id: "tides", weight: 2))
        try bench.restart()
        #expect(try bench.accepted(condition(64)).acceptance.recipientCount == 0)
        #expect(try bench.refused(condition(65)).word == .invalidArgument)
        try bench.expectClean()
    }

    @Test("FAN-1: deferred messages outlive the broker and begin when there is room, in order")
    func restart() throws {
        let (bench, instances) = try bench(limits(inProgress: 2))
        for n in 0..<7 as Range<UInt8> { _ = try bench.accepted(message(n)) }
        let waiting = try deferredNumbers(bench)
        #expect(waiting.count == 5)
        try bench.restart()
        // Who comes first now waits as well.
        #expect(try bench.accepted(message(7)).acceptance.deferredPlace == 6)
        var running = fanouts(try bench.advance()).map(\.header.number)
        #expect(running == Array(waiting[..<2]))
        while !running.isEmpty {
            try bench.end(running.removeFirst())
            running += fanouts(try bench.advance()).map(\.header.number)
        }
        for instance in instances {
            #expect(
                try bench.mailbox(instance).bodies == (0..<8 as Range<UInt8>).map { [$0] })
        }
        try bench.expectClean()
    }

    @Test("FAN-1 MSG-10: a deferred message can be cancelled; those behind it go on")
    func cancelling() throws {
        let (bench, instances) = try bench(limits(inProgress: 1))
        let first = try bench.accepted(message(0)).acceptance.messageNumber
        let later = try (1...3 as ClosedRange<UInt8>).map {
            try bench.accepted(message($0)).acceptance.messageNumber
        }
        func cancel(_ number: UInt64) throws -> Outcome {
            try bench.apply(.cancel(project: bench.tides, number: number))
        }
        for number in [later[0], later[2]] {
            guard case .cancelled(_, number, nil) = try cancel(number) else {
                throw Surprise("no cancellation")
            }
            guard case .refused(let error) = try cancel(number) else {
                throw Surprise("cancelled twice")
            }
            #expect(error.word == .notFound)
        }
        #expect(try bench.accepted(message(4)).acceptance.deferredPlace == 2)
        try bench.end(first)
        #expect(fanouts(try bench.advance()).map(\.header.number) == [later[1]])
        try bench.end(later[1])
        _ = try bench.advance()
        #expect(try bench.mailbox(instances[0]).bodies == [[0], [2], [4]])
        // Under its number it is known when it has begun.
        guard case .cancelled(_, later[1], .some) = try cancel(later[1]) else {
            throw Surprise("no cancellation")
        }
        try bench.expectClean()
    }

    @Test(
        "FAN-1 TTL-1: a deferred message's life counts from its acceptance, its audience is that of its beginning"
    )
    func life() throws {
        let (bench, _) = try bench(limits(inProgress: 1), instances: 1)
        let start = bench.now
        let first = try bench.accepted(message(0)).acceptance.messageNumber
        _ = try bench.accepted(message(1, lifespan: .seconds(3)))
        let (long, _) = try bench.accepted(message(2, lifespan: .seconds(10)))
        // One platform's part is now or never, and that is over.
        var mixed = message(3, lifespan: .seconds(20))
        mixed.variants = [
            OutgoingVariant(platforms: PlatformSet(.android), lifespan: .seconds(0), body: [4]),
            OutgoingVariant(platforms: PlatformSet(.apple), lifespan: .seconds(20), body: [5]),
        ]
        _ = try bench.accepted(mixed)
        bench.wait(seconds: 4)
        let second = try bench.register(on: .apple)
        try bench.subscribe([second], to: "t")
        try bench.end(first)
        let begun = fanouts(try bench.advance())
        // The one that is over takes nobody's place.
        try #require(begun.map(\.header.number) == [long.messageNumber])
        #expect(begun[0].header.expires == start.advanced(bySeconds: 10))
        #expect(begun[0].recipients.ordinals == [0, 1])
        try bench.end(long.messageNumber)
        let rest = fanouts(try bench.advance())
        try #require(rest.map(\.body) == [[5]])
        #expect(rest[0].header.expires == start.advanced(bySeconds: 20))
        try bench.expectClean()
    }

    @Test(
        "FAN-1 MSG-7: a message that is only checked neither waits nor counts, and is refused as any other"
    )
    func validation() throws {
        let (bench, _) = try bench(limits(inProgress: 1, deferred: 1))
        var checked = message()
        checked.validateOnly = true
        for _ in 0..<3 {
            #expect(
                try bench.accepted(checked).acceptance
                    == Acceptance(messageNumber: 0, recipientCount: 2))
        }
        #expect(try bench.accepted(message()).fanouts.count == 1)
        #expect(try bench.accepted(message()).acceptance.deferredPlace == 1)
        #expect(try bench.refused(message()).word == .resourceExhausted)
        #expect(try bench.refused(checked).word == .resourceExhausted)
        #expect(try deferredNumbers(bench).count == 1)
    }

    @Test("FAN-1: a transaction that fails takes back what it began and what it deferred")
    func abandoned() throws {
        let (bench, _) = try bench(limits(inProgress: 3))
        let first = try bench.accepted(message()).acceptance.messageNumber
        let commands = (0..<8 as Range<UInt8>).map {
            Command.send(project: bench.tides, message: message($0))
        }
        for _ in 0..<5 { try bench.applyInVain(commands) }
        #expect(bench.book!.standings.map(\.running.count) == [1])
        #expect(bench.book!.standings.map(\.deferredCount) == [0])
        #expect(try deferredNumbers(bench).isEmpty)
        let outcomes = try bench.apply(commands)
        let places = outcomes.map { outcome -> UInt64? in
            if case .accepted(let acceptance, _) = outcome { acceptance.deferredPlace } else { nil }
        }
        #expect(places == [0, 0, 1, 2, 3, 4, 5, 6])
        // The same of a beginning.
        try bench.end(first)
        try bench.advanceInVain()
        #expect(try deferredNumbers(bench).count == 6)
        #expect(fanouts(try bench.advance()).count == 1)
        #expect(bench.book!.standings.map(\.deferredCount) == [5])
        try bench.expectClean()
    }

    @Test(
        "FAN-1 MSG-10: scheduled messages that are due wait for room as well, whatever the queue's bound"
    )
    func scheduled() throws {
        let (bench, instances) = try bench(limits(inProgress: 1, deferred: 1))
        func later(_ n: UInt8, _ lifespan: Lifespan = .longest) throws -> UInt64 {
            var later = message(n, lifespan: lifespan)
            later.sendAt = bench.now.advanced(bySeconds: 10)
            return try bench.accepted(later).acceptance.messageNumber
        }
        let due = try (1...3 as ClosedRange<UInt8>).map { try later($0, .seconds(60)) }
        // TTL-2: now or never waits for no room.
        _ = try later(4, .seconds(0))
        var direct = SendCommand(target: .token(instances[0].token.text), body: [5])
        direct.sendAt = bench.now.advanced(bySeconds: 10)
        _ = try bench.accepted(direct)
        let start = bench.now
        let first = try bench.accepted(message(0)).acceptance.messageNumber
        bench.wait(seconds: 11)
        #expect(fanouts(try bench.advance()).map(\.body) == [[4], [5]])
        #expect(Array(try deferredNumbers(bench)[..<3]) == due)
        #expect(try bench.refused(message(9)).word == .resourceExhausted)
        try bench.end(first)
        let begun = fanouts(try bench.advance())
        try #require(begun.map(\.header.number) == [due[0]])
        #expect(begun[0].header.expires == start.advanced(bySeconds: 70))
        for number in due[..<2] {
            try bench.end(number)
            _ = try bench.advance()
        }
        try bench.end(due[2])
        #expect(fanouts(try bench.advance()).isEmpty)
        #expect(try deferredNumbers(bench).isEmpty)
        try bench.expectClean()
    }

    @Test("FAN-1 MSG-9: a deferred message that is sent again has the first one's answer")
    func repeated() throws {
        let (bench, _) = try bench(limits(inProgress: 1))
        _ = try bench.accepted(message())
        _ = try bench.accepted(message())
        var known = message(7)
        known.idempotencyKey = "k"
        let (first, _) = try bench.accepted(known)
        #expect(first.deferredPlace == 2)
        try bench.restart()
        #expect(try bench.accepted(known).acceptance == first)
        #expect(try deferredNumbers(bench).count == 2)
    }

    @Test(
        "FAN-1: memory for what is in progress is bounded, of a project and in total; one of each may always begin"
    )
    func memory() throws {
        let (bench, _) = try bench(
            limits(inProgress: 1000, megabytesPerProject: 1, megabytes: 2))
        let others = try (0..<4).map { index in
            _ = try bench.apply(
                .createProject(id: "p\(index)", senderID: 1, conditionTopicsMax: 0))
            let instance = try bench.register(in: "p\(index)")
            try bench.subscribe([instance], to: "t")
            return instance.project
        }
        func places(_ project: ProjectNumber, _ count: Int, bytes: Int) throws -> [UInt64] {
            try (0..<count).map { _ in
                let outcome = try bench.apply(
                    .send(project: project, message: message(bytes: bytes)))
                guard case .accepted(let acceptance, _) = outcome else { throw Surprise(outcome) }
                return acceptance.deferredPlace
            }
        }
        // Its own megabyte, and what it had begun below it.
        #expect(try places(bench.tides, 4, bytes: 600_000) == [0, 0, 1, 2])
        // All have two: the next project has its first, and no more.
        #expect(try places(others[0], 2, bytes: 900_000) == [0, 1])
        #expect(try places(others[1], 2, bytes: 10) == [0, 1])
        #expect(try bench.advance().isEmpty)
        for standing in bench.book!.standings {
            guard standing.project == bench.tides else { continue }
            for (_, progress) in standing.running { progress.endPart(at: bench.now) }
        }
        #expect(bench.book!.takeRoom())
        // Whose turn it is goes round, until all have two again.
        let begun = fanouts(try bench.advance())
        #expect(begun.map(\.project) == [bench.tides, others[0]])
        #expect(try places(others[2], 3, bytes: 600_000) == [0, 1, 2])
        #expect(try places(others[3], 1, bytes: 600_000) == [0])
    }

    @Test("FAN-1: recipients that several fanouts have in common are held, and counted, once")
    func sharedRecipients() throws {
        let (bench, _) = try bench(limits(inProgress: 10))
        let numbers = try bench.apply(
            (0..<5 as Range<UInt8>).map { .send(project: bench.tides, message: message($0)) }
        ).flatMap { fanouts([$0]) }.map(\.header.number)
        let together = bench.book!.standings[0].bytes
        for number in numbers[1...] { try bench.end(number) }
        let alone = bench.book!.standings[0].bytes
        #expect(together - alone == 4)
        try bench.end(numbers[0])
        #expect(bench.book!.standings.isEmpty)
    }

    @Test("FAN-1: a message is one fanout, whatever the number of its variants and loops")
    func parts() throws {
        let (bench, _) = try bench(limits(inProgress: 1))
        let apple = try bench.register(on: .apple)
        try bench.subscribe([apple], to: "t")
        var message = message()
        message.variants = [
            OutgoingVariant(platforms: PlatformSet(.android), body: [1]),
            OutgoingVariant(platforms: PlatformSet(.apple), body: [2]),
        ]
        let outcome = try bench.applyAsIs(.send(project: bench.tides, message: message))
        let parts = fanouts([outcome])
        try #require(parts.count == 2)
        let progress = try #require(parts[0].progress)
        #expect(parts[1].progress === progress)
        #expect(bench.book!.standings[0].running.isEmpty)
        progress.begin(loops: 3, at: bench.now)
        #expect(bench.book!.standings[0].running.count == 1)
        #expect(try bench.accepted(self.message()).acceptance.deferredPlace == 1)
        for part in 1...6 {
            #expect(bench.canBeginDeferred == false)
            progress.endPart(at: bench.now)
            #expect(bench.canBeginDeferred == (part == 6))
        }
    }
}
