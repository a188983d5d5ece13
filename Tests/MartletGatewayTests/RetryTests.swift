// SPDX-License-Identifier: Apache-2.0
//
// GW-8: which sends are repetitions of another, and which are meant. The clock is the test's.
// Rests on RetryTable.

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

private func call(
    _ body: String = "storm", project: String = "tides", key: String = "k",
    path: String = "send", connection: UInt64? = nil
) -> GatewayCall {
    var call = GatewayCall(.post, path: [path], body: Array(body.utf8))
    call.caller = Caller(projectID: project, senderID: 1, credential: .serverKey, keyID: key)
    call.connectionNumber = connection
    return call
}

private func text(_ answer: GatewayAnswer) -> String {
    String(decoding: answer.body, as: UTF8.self)
}

@Suite("Gateway: repeated sends", .timeLimit(.minutes(1)))
struct RetryTests {
    private let sends = Sends()

    private func table(window: Int = 20, entriesMax: Int = 100) -> RetryTable {
        let sends = sends
        return RetryTable(window: .seconds(window), entriesMax: entriesMax) { sends.now }
    }

    @Test("GW-8 a repetition after the answer was lost gets that answer and sends nothing")
    func lostAnswer() async throws {
        let table = table()
        let sends = sends
        for _ in 0..<3 {
            #expect(text(try await table.answer(call()) { sends.send() }) == "1")
            sends.advance(seconds: 6)
        }
        #expect(sends.count == 1)
    }

    @Test("GW-8 a repetition while the first is in progress waits for its answer")
    func inProgress() async throws {
        let table = table()
        let sends = sends
        let (gate, opening) = AsyncStream.makeStream(of: Void.self)
        let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
        let first = Task {
            try await table.answer(call()) {
                beginning.yield()
                for await _ in gate { break }
                return sends.send()
            }
        }
        for await _ in begun { break }
        // The first caller has gone: its send goes on.
        first.cancel()
        async let second = table.answer(call()) { sends.send() }
        async let third = table.answer(call()) { sends.send() }
        opening.yield()
        let answers = try await [second, third].map(text)
        #expect(answers == ["1", "1"])
        #expect(sends.count == 1)
    }

    @Test("GW-8 two equal sends further apart than the window are both sent")
    func apart() async throws {
        let table = table()
        let sends = sends
        #expect(text(try await table.answer(call()) { sends.send() }) == "1")
        sends.advance(seconds: 20)
        #expect(text(try await table.answer(call()) { sends.send() }) == "2")
    }

    @Test("GW-8 what was refused is not taken for sent")
    func refused() async throws {
        let table = table()
        let sends = sends
        for refusal in [
            GatewayError(.unavailable, "later"), GatewayError(.resourceExhausted, "later"),
        ] {
            await #expect(throws: refusal) { try await table.answer(call()) { throw refusal } }
        }
        #expect(text(try await table.answer(call()) { sends.send() }) == "1")
    }

    @Test("GW-8 another body, path, project or credential is another send")
    func others() async throws {
        let table = table()
        let sends = sends
        for call in [
            call(), call("rain"), call(project: "moors"), call(key: "l"), call(path: "sends"),
            call("dstorm", path: "sen"),
        ] {
            _ = try await table.answer(call) { sends.send() }
        }
        #expect(sends.count == 6)
    }

    @Test("GW-8 who sends again on the connection that brought the answer means it")
    func sameConnection() async throws {
        let table = table()
        let sends = sends
        for connection: UInt64 in [1, 1, 2] {
            _ = try await table.answer(call(connection: connection)) { sends.send() }
        }
        // The second is the last that was accepted, and the third its repetition.
        #expect(sends.count == 2)
        sends.advance(seconds: 19)
        #expect(text(try await table.answer(call()) { sends.send() }) == "2")
        sends.advance(seconds: 1)
        #expect(text(try await table.answer(call()) { sends.send() }) == "3")
    }

    @Test("GW-8 turned off, every send is sent; past the bound the oldest is forgotten")
    func bounds() async throws {
        let sends = sends
        let off = table(window: 0)
        for _ in 0..<2 { _ = try await off.answer(call()) { sends.send() } }
        #expect(sends.count == 2)
        let small = table(entriesMax: 1)
        for body in ["a", "b", "b", "a"] { _ = try await small.answer(call(body)) { sends.send() } }
        #expect(sends.count == 5)
    }
}
