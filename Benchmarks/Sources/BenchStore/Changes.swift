// SPDX-License-Identifier: Apache-2.0
//
// Durable changes through the embedding API: registrations, topic changes one by one and in batches
// of 1000, direct sends. Every call returns when its effect is on disk; tasks keep several
// outstanding. Rests on the embedding API.

import Glibc
import Martlet

enum Changes {
    static let project = "bench"

    static func measure(folder: String) async throws {
        var configuration = BrokerConfiguration(folder: folder)
        configuration.limits = .none
        let broker = try await Broker.open(configuration)
        _ = try await broker.createProject(project)
        let instances = 100_000
        var tokens: [String] = []
        try await timed("registrations", outstanding: 1000, count: instances, each: 1) { _ in
            try await broker.register(
                app: "com.example.bench", platform: .android, in: project
            ).token
        } result: {
            tokens.append($0)
        }
        let all = tokens
        let batch = 1000
        try await timed(
            "topic changes, one topic, batches of 1000", outstanding: 16,
            count: 4 * instances / batch, each: batch
        ) { number in
            // The whole lot in, out, in, out.
            let first = number * batch % instances
            let some = Array(all[first..<first + batch])
            if number * batch / instances % 2 == 0 {
                _ = try await broker.subscribe(some, to: "large", in: project)
            } else {
                _ = try await broker.unsubscribe(some, from: "large", in: project)
            }
        } result: { (_: Void) in
        }
        try await timed(
            "topic changes, over 100,000 topics, 1000 outstanding", outstanding: 1000,
            count: 100_000, each: 1
        ) { number in
            _ = try await broker.subscribe(
                [all[number * 7919 % instances]], to: "topic-\(number * 104_729 % 100_000)",
                in: project)
        } result: { (_: Void) in
        }
        try await timed(
            "topic changes, one at a time", outstanding: 1, count: 2000, each: 1
        ) { number in
            _ = try await broker.subscribe([all[number]], to: "single", in: project)
        } result: { (_: Void) in
        }
        for outstanding in [1, 16, 256] {
            try await timed(
                "direct durable sends", outstanding: outstanding,
                count: 2000 * min(outstanding, 20),
                each: 1
            ) { number in
                let message = Message(data: ["n": String(repeating: "x", count: 128)])
                _ = try await broker.send(
                    OutgoingMessage(to: .token(all[number * 7919 % instances]), message),
                    in: project)
            } result: { (_: Void) in
            }
        }
        try await broker.close()
    }

    /// Calls `body` `count` times with `outstanding` at once; each changes `each` things.
    static func timed<Value: Sendable>(
        _ kind: String, outstanding: Int, count: Int, each: Int,
        _ body: @escaping @Sendable (Int) async throws -> Value, result: (Value) -> Void
    ) async throws {
        let (bytes, cpu, began) = (bytesWritten(), processNanoseconds(), nanoseconds())
        try await withThrowingTaskGroup(of: Value.self) { group in
            var next = 0
            while next < min(outstanding, count) {
                let number = next
                group.addTask { try await body(number) }
                next += 1
            }
            for try await value in group {
                result(value)
                guard next < count else { continue }
                let number = next
                group.addTask { try await body(number) }
                next += 1
            }
        }
        let seconds = Double(nanoseconds() - began) / 1e9
        let changes = Double(count * each)
        report([
            "kind": kind, "outstanding": outstanding, "perSecond": changes / seconds,
            "cpuMicroseconds": Double(processNanoseconds() - cpu) / 1e3 / changes,
            "bytesWritten": Double(bytesWritten() - bytes) / changes,
        ])
    }
}
