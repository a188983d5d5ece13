// SPDX-License-Identifier: Apache-2.0
//
// Upstream messages beside a naive model (UPS-1): devices send, some of it twice; senders come and go, and take what they get
// or do not; time passes, transactions fail, the broker restarts. After each step the model says what was handed out and what
// was not. Rests on UpstreamBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// What should be.
private struct UpstreamModel {
    struct Message {
        var device: Int
        var id: String
        var expires: Instant
    }

    struct Listener {
        /// Everything that it was ever handed.
        var had: Set<UInt64> = []
        /// What it may still have, and since when.
        var held: [UInt64: Instant] = [:]
        /// Gets no more.
        var isRetired = false
    }

    struct KnownID {
        var id: String
        var until: Instant
        var number: UInt64
    }

    /// Rows of the store.
    var kept: [UInt64: Message] = [:]
    /// For now or never, not handed out yet.
    var passing: [UInt64: Message] = [:]
    var listeners: [UInt64: Listener] = [:]
    var known: [Int: [KnownID]] = [:]
    var last: UInt64 = 0

    func isLive(_ number: UInt64, _ now: Instant) -> Bool {
        kept[number].map { $0.expires > now } ?? false
    }

    /// Whether somebody who is there has had it for less than a minute.
    func isWithSomebody(_ number: UInt64, _ now: Instant) -> Bool {
        listeners.values.contains { listener in
            listener.held[number].map { $0.advanced(bySeconds: 60) > now } ?? false
        }
    }

    mutating func take(_ numbers: [UInt64]) {
        for number in numbers {
            kept[number] = nil
            for listener in listeners.keys { listeners[listener]!.held[number] = nil }
        }
    }
}

private final class UpstreamHistory {
    static let keptMax = 450
    private let bench: SendBench
    private let devices: [Instance]
    private var random: SeededGenerator
    private var model = UpstreamModel()
    private(set) var handedCount = 0
    private(set) var againCount = 0
    private var freshIDs = 0

    init(seed: UInt64) throws {
        random = SeededGenerator(seed: seed)
        var limits = BrokerLimits()
        limits.upstreamKeptMax = Self.keptMax
        limits.deviceUpstreamPerMinute = 0
        bench = try SendBench(limits)
        devices = try [bench.register(), bench.register(), bench.register()]
    }

    func run(_ steps: Int) throws {
        for _ in 0..<steps {
            switch random.number(0...99) {
            case 0...29: try send(random.number(1...5))
            case 30...34: try send(random.number(50...150))
            case 35...44: listen()
            case 45...48: leave()
            case 49...50: retire()
            case 51...79: try take()
            case 80...90: wait()
            case 91...95:
                _ = try bench.advance()
                for (number, message) in model.kept where message.expires <= bench.now {
                    model.kept[number] = nil
                }
            case 96: try bench.expectClean()
            case 97:
                try bench.applyInVain((0..<3).map { _ in command().command })
            default: try restart()
            }
            if random.chance(70) { try handOut() }
            #expect(try bench.kept() == model.kept.keys.sorted())
        }
        try bench.expectClean()
    }

    // MARK: Steps

    private func command() -> (command: Command, device: Int, id: String, seconds: UInt32?) {
        let device = random.number(0...2)
        freshIDs += 1
        let id = random.chance(20) ? "again \(random.number(0...4))" : "\(freshIDs)"
        let seconds = [0, 1, 30, 90, 3600, nil][random.number(0...5)] as UInt32?
        return (bench.upstream(id, from: devices[device], seconds: seconds), device, id, seconds)
    }

    private func send(_ count: Int) throws {
        for _ in 0..<count {
            let (command, device, id, seconds) = command()
            let now = bench.now
            // Now or never needs room at once, which the model only knows where there is nobody.
            let hasNobody = model.listeners.isEmpty
            let known = model.known[device]?.last { $0.id == id && $0.until > now }
            switch try bench.apply(command) {
            case .upstreamAccepted(let acceptance, _):
                #expect(acceptance.isForSenders == (known == nil))
                if let known {
                    #expect(acceptance.number == known.number)
                    continue
                }
                model.last += 1
                #expect(acceptance.number == model.last)
                let life = seconds ?? 2_419_200
                let message = UpstreamModel.Message(
                    device: device, id: id, expires: now.advanced(bySeconds: Int64(life)))
                if life > 0 {
                    #expect(model.kept.count < Self.keptMax)
                    model.kept[model.last] = message
                } else {
                    #expect(!hasNobody)
                    model.passing[model.last] = message
                }
                var ids = (model.known[device] ?? []).filter { $0.until > now && $0.id != id }
                ids.append(
                    UpstreamModel.KnownID(
                        id: id, until: now.advanced(bySeconds: 86_400), number: model.last))
                model.known[device] = Array(ids.suffix(100))
            case .refused(let error):
                #expect(known == nil)
                if error.word == .resourceExhausted {
                    #expect(seconds != 0 && model.kept.count == Self.keptMax)
                } else {
                    #expect(error.word == .notFound && seconds == 0)
                }
            case let outcome: throw Surprise(outcome)
            }
        }
    }

    private func listen() {
        guard model.listeners.count < 5 else { return }
        model.listeners[bench.listen()] = UpstreamModel.Listener()
    }

    private func leave() {
        guard let listener = model.listeners.keys.sorted().randomElement(using: &random) else {
            return
        }
        bench.upstreamBook.leave(listener)
        model.listeners[listener] = nil
    }

    private func retire() {
        guard let listener = model.listeners.keys.sorted().randomElement(using: &random) else {
            return
        }
        let part = random.number(0...100)
        let kept = model.listeners[listener]!.held.filter { _ in random.chance(part) }
        bench.upstreamBook.retire(listener, keeping: Set(kept.keys))
        model.listeners[listener]!.held = kept
        model.listeners[listener]!.isRetired = true
    }

    private func take() throws {
        guard let listener = model.listeners.keys.sorted().randomElement(using: &random) else {
            return
        }
        let part = random.number(0...100)
        let numbers = model.listeners[listener]!.held.keys.sorted().filter { _ in
            random.chance(part)
        }
        let command = Command.takeUpstream(project: bench.tides, numbers: numbers)
        if random.chance(10) { try bench.applyInVain([command]) }
        _ = try bench.apply(command)
        model.take(numbers)
    }

    private func wait() { bench.wait(seconds: Double(random.number(1...70))) }

    private func restart() throws {
        try bench.restart()
        model.listeners = [:]
        model.passing = [:]
    }

    // MARK: What is handed out

    private func handOut() throws {
        let now = bench.now
        let surelyFree = model.listeners.values.filter { !$0.isRetired }
            .reduce(0) { $0 + max(0, 100 - $1.held.count) }
        let handed = try bench.handOut()
        for (listener, messages) in handed {
            #expect(
                model.listeners[listener]?.isRetired == false, "handed to who takes no more")
            for message in messages { check(message, to: listener, now) }
            let live = model.listeners[listener]?.held.keys.filter { model.isLive($0, now) } ?? []
            #expect(live.count <= Limits.upstreamWindow)
        }
        if surelyFree >= model.passing.count {
            let all = Set(handed.values.flatMap { $0 }.map(\.number))
            #expect(all.isSuperset(of: model.passing.keys), "now was never")
        }
        model.passing = [:]
        // Whatever nobody has is nothing that anybody could have been given.
        let free = model.listeners.filter {
            !$0.value.isRetired && $0.value.held.count < Limits.upstreamWindow
        }
        for number in model.kept.keys
        where model.isLive(number, now) && !model.isWithSomebody(number, now) {
            #expect(
                free.values.allSatisfy { $0.had.contains(number) },
                "message \(number) is with nobody")
        }
    }

    private func check(_ message: UpstreamMessage, to listener: UInt64, _ now: Instant) {
        let number = message.number
        let isPassing = model.passing[number] != nil
        #expect(isPassing || model.isLive(number, now), "message \(number) is over")
        #expect(
            !model.isWithSomebody(number, now), "message \(number) is with two senders")
        #expect(
            model.listeners[listener]?.had.insert(number).inserted ?? false,
            "message \(number) came twice to one sender")
        let expected = isPassing ? model.passing[number] : model.kept[number]
        #expect(message.messageID == expected?.id && message.expires == expected?.expires)
        #expect(message.token == expected.map { devices[$0.device].token })
        if model.listeners.contains(where: { $0.key != listener && $0.value.had.contains(number) })
        {
            againCount += 1
        }
        model.listeners[listener]?.held[number] = now
        handedCount += 1
    }
}

@Suite("Histories of messages of devices")
struct UpstreamHistoryTests {
    @Test(
        "UPS-1: whatever senders do, each message is with one of them at a time, none comes twice to one, none that somebody could have waits, and none is lost before it is taken or expires",
        arguments: 1...rounds(12) as ClosedRange<UInt64>)
    func histories(seed: UInt64) throws {
        let history = try UpstreamHistory(seed: seed)
        try history.run(400)
        #expect(history.handedCount > 100)
    }
}
