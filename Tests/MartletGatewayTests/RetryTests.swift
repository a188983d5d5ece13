// SPDX-License-Identifier: Apache-2.0
//
// Which sends are retries of another, and which are meant (GW-8). The clock is the test's, and so is the way of every answer.
// Rests on RetryTable.

import Foundation
import MartletGateway
import Synchronization
import Testing

/// Counts sends, and answers with their number.
private final class Sends: Sendable {
    private let state = Mutex((count: 0, seconds: 0))
    private let start = ContinuousClock.now

    var count: Int { state.withLock { $0.count } }
    func advance(seconds: Int) { state.withLock { $0.seconds += seconds } }
    var now: ContinuousClock.Instant { start + .seconds(state.withLock { $0.seconds }) }

    func send() -> GatewayAnswer {
        .text("\(state.withLock { state in state.count += 1; return state.count })")
    }
}

/// - Parameter delivery: nil: the caller has every answer at once.
private func call(
    _ body: String = "storm", project: String = "tides", key: String = "k",
    path: String = "send", delivery: AnswerDelivery? = nil
) -> GatewayCall {
    var call = GatewayCall(.post, path: [path], body: Array(body.utf8))
    call.caller = Caller(projectID: project, senderID: 1, credential: .serverKey, keyID: key)
    call.delivery = delivery
    return call
}

private func text(_ answer: GatewayAnswer) -> String {
    String(decoding: answer.body, as: UTF8.self)
}

/// Work that begins, and ends when it is told to.
private struct Gate {
    private let begun = AsyncStream.makeStream(of: Void.self)
    private let opened = AsyncStream.makeStream(of: Void.self)

    func pass() async {
        begun.continuation.yield()
        for await _ in opened.stream { break }
    }

    func waitUntilBegun() async { for await _ in begun.stream { break } }
    func open() { opened.continuation.yield() }
}

@Suite("Gateway: repeated sends", .timeLimit(.minutes(1)))
struct RetryTests {
    private let sends = Sends()

    private func table(
        window: Int = 20, entriesMax: Int = 100, folder: String? = nil
    ) -> RetryTable {
        let sends = sends
        return RetryTable(window: .seconds(window), entriesMax: entriesMax, folder: folder) {
            sends.now
        }
    }

    /// Sends, and says how the answer went out.
    private func send(
        _ table: RetryTable, _ body: String = "storm", isWhole: Bool
    ) async throws -> String {
        let delivery = AnswerDelivery()
        let sends = sends
        let answer = try await table.answer(call(body, delivery: delivery)) { _ in sends.send() }
        delivery.end(isWhole: isWhole)
        return text(answer)
    }

    @Test("GW-8 equal sends whose answers were written are messages of their own")
    func answered() async throws {
        let table = table()
        let sends = sends
        for number in 1...3 {
            #expect(try await send(table, isWhole: true) == "\(number)")
            sends.advance(seconds: 3)
        }
        // A caller without a connection that is watched has its answer, too.
        for number in 4...5 {
            #expect(text(try await table.answer(call()) { _ in sends.send() }) == "\(number)")
        }
    }

    @Test("GW-8 five equal sends at a time, whose callers all wait, are five")
    func together() async throws {
        let table = table()
        let sends = sends
        let gates = (0..<5).map { _ in Gate() }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for gate in gates {
                tasks.addTask {
                    let delivery = AnswerDelivery()
                    _ = try await table.answer(call(delivery: delivery)) { _ in
                        await gate.pass()
                        return sends.send()
                    }
                    delivery.end(isWhole: true)
                }
            }
            // All are in progress before the first one ends.
            for gate in gates { await gate.waitUntilBegun() }
            for gate in gates { gate.open() }
            try await tasks.waitForAll()
        }
        #expect(sends.count == 5)
    }

    @Test("GW-8 a repetition after the connection ended before the answer sends nothing")
    func lostAnswer() async throws {
        let table = table()
        for _ in 0..<3 {
            #expect(try await send(table, isWhole: false) == "1")
            sends.advance(seconds: 19)
        }
        #expect(try await send(table, isWhole: true) == "1")
        // The answer has been read now, so an equal send is meant.
        #expect(try await send(table, isWhole: true) == "2")
    }

    @Test(
        "GW-8 a repetition while the first is in progress waits for its answer",
        arguments: [
            true, false,
        ])
    func inProgress(isSeen: Bool) async throws {
        let table = table()
        let sends = sends
        let gate = Gate()
        let hasLeft = Atomic(false)
        let delivery = AnswerDelivery { .init(hasPeerLeft: hasLeft.load(ordering: .relaxed)) }
        let first = Task {
            try await table.answer(call(delivery: delivery)) { _ in
                await gate.pass()
                return sends.send()
            }
        }
        await gate.waitUntilBegun()
        // The first caller has gone: its send goes on.
        first.cancel()
        if isSeen { delivery.end(isWhole: false) } else { hasLeft.store(true, ordering: .relaxed) }
        let repetition = AnswerDelivery()
        async let second = table.answer(call(delivery: repetition)) { _ in sends.send() }
        gate.open()
        #expect(text(try await second) == "1")
        repetition.end(isWhole: true)
        #expect(sends.count == 1)
        #expect(try await send(table, isWhole: true) == "2")
    }

    @Test("GW-8 a repetition that overtakes the attempt whose caller has left is the only send")
    func overtaken() async throws {
        let table = table()
        let sends = sends
        let first = AnswerDelivery()
        first.end(isWhole: false)
        let gate = Gate()
        let second = AnswerDelivery()
        async let repeated = table.answer(call(delivery: second)) { _ in
            await gate.pass()
            return sends.send()
        }
        await gate.waitUntilBegun()
        async let late = table.answer(call(delivery: first)) { _ in sends.send() }
        gate.open()
        #expect(try await [repeated, late].map(text) == ["1", "1"])
        second.end(isWhole: true)
        // Later still: the repetition is answered. What came after it is no attempt of before.
        sends.advance(seconds: 5)
        for (age, number) in [(5, "1"), (4, "2")] {
            let delivery = AnswerDelivery { .init(hasPeerLeft: true, age: .seconds(age)) }
            let answer = try await table.answer(call(delivery: delivery)) { _ in sends.send() }
            #expect(text(answer) == number)
        }
        #expect(try await send(table, isWhole: true) == "2")
        #expect(try await send(table, isWhole: true) == "3")
    }

    @Test("GW-8 of several equal sends as many are repeated as were left")
    func several() async throws {
        let table = table()
        let deliveries = (0..<3).map { _ in AnswerDelivery() }
        let sends = sends
        for delivery in deliveries {
            _ = try await table.answer(call(delivery: delivery)) { _ in sends.send() }
        }
        deliveries[0].end(isWhole: true)
        deliveries[1].end(isWhole: false)
        deliveries[2].end(isWhole: false)
        var answers: [String] = []
        for _ in 0..<3 { answers.append(try await send(table, isWhole: true)) }
        #expect(answers == ["2", "3", "4"])
    }

    @Test("GW-8 what was left is forgotten after the window")
    func apart() async throws {
        let table = table()
        #expect(try await send(table, isWhole: false) == "1")
        sends.advance(seconds: 20)
        #expect(try await send(table, isWhole: true) == "2")
    }

    @Test(
        "GW-8 answers that were read are forgotten after ten seconds, and hold no request meanwhile"
    )
    func burst() async throws {
        let table = table()
        final class Payload: Sendable {}
        weak var payload: Payload?
        do {
            let held = Payload()
            payload = held
            let delivery = AnswerDelivery()
            let sends = sends
            _ = try await table.answer(call("held", delivery: delivery)) { _ in
                withExtendedLifetime(held) { sends.send() }
            }
            delivery.end(isWhole: true)
        }
        for number in 0..<50 { _ = try await send(table, "storm \(number)", isWhole: true) }
        #expect(table.answeredCount == 51)
        // The task that did the work ends a moment later.
        for _ in 0..<1000 where payload != nil { try await Task.sleep(for: .milliseconds(1)) }
        #expect(payload == nil)
        sends.advance(seconds: 10)
        table.forgetOld()
        #expect(table.answeredCount == 0)
    }

    @Test("GW-8 what was refused is not taken for sent")
    func refused() async throws {
        let table = table()
        let delivery = AnswerDelivery()
        for refusal in [
            GatewayError(.unavailable, "later"), GatewayError(.resourceExhausted, "later"),
        ] {
            await #expect(throws: refusal) {
                try await table.answer(call(delivery: delivery)) { _ in throw refusal }
            }
        }
        delivery.end(isWhole: false)
        #expect(try await send(table, isWhole: true) == "1")
    }

    @Test("GW-8 another body, path, project or credential is another send")
    func others() async throws {
        let table = table()
        let sends = sends
        let lost = AnswerDelivery()
        lost.end(isWhole: false)
        for call in [
            call(delivery: lost), call("rain", delivery: lost),
            call(project: "moors", delivery: lost), call(key: "l", delivery: lost),
            call(path: "sends", delivery: lost), call("dstorm", path: "sen", delivery: lost),
        ] {
            _ = try await table.answer(call) { _ in sends.send() }
        }
        #expect(sends.count == 6)
    }

    @Test("GW-8 turned off, every send is sent; past the bound the oldest is forgotten")
    func bounds() async throws {
        let off = table(window: 0)
        for _ in 0..<2 { _ = try await send(off, isWhole: false) }
        #expect(sends.count == 2)
        let small = table(entriesMax: 1)
        for body in ["a", "b", "b", "a"] { _ = try await send(small, body, isWhole: false) }
        #expect(sends.count == 5)
    }

    @Test("GW-8 the next process makes the attempts again that were left, and no others")
    func restart() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "martlet-retries-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let made = Mutex<[SendAttempt?]>([])
        func send(_ table: RetryTable, _ body: String, isWhole: Bool?) async throws {
            let delivery = AnswerDelivery()
            _ = try await table.answer(call(body, delivery: delivery)) { attempt in
                made.withLock { $0.append(attempt) }
                return .text("")
            }
            if let isWhole { delivery.end(isWhole: isWhole) }
        }
        var table = table(folder: folder.path)
        try await send(table, "answered", isWhole: true)
        try await send(table, "left", isWhole: false)
        try await send(table, "waited", isWhole: nil)
        for body in ["left", "waited"] {
            // The process before is gone, and its lock on the file with it.
            table = RetryTable(window: .zero)
            table = self.table(folder: folder.path)
            try await send(table, body, isWhole: true)
        }
        try await send(table, "left", isWhole: true)
        try await send(table, "answered", isWhole: true)
        let attempts = made.withLock { $0 }
        #expect(attempts[3] == attempts[1] && attempts[4] == attempts[2])
        #expect(Set(attempts).count == 5 && !attempts.contains(nil))
    }

    @Test(
        "GW-8 what was left longer ago than an attempt is recognised is not, after a restart either"
    )
    func restartLater() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "martlet-retries-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var table = table(folder: folder.path)
        #expect(try await send(table, isWhole: false) == "1")
        table = RetryTable(window: .zero)
        // The row's time: when the machine was started.
        let file = try FileHandle(forUpdating: folder.appending(path: "gateway.unanswered"))
        try file.seek(toOffset: 64 + 40)
        try file.write(contentsOf: [UInt8](repeating: 0, count: 8))
        try file.close()
        table = self.table(folder: folder.path)
        #expect(try await send(table, isWhole: true) == "2")
    }
}
