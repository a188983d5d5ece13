// SPDX-License-Identifier: Apache-2.0
//
// GW-8: SDKs send a message again by themselves when a connection breaks or an answer does not come in
// time. They repeat the same bytes within seconds, so a send that is the same as one in progress, or as
// one that was accepted a moment ago, gets that one's answer and is not sent. What was refused is not
// kept: its repetition is a new attempt. In memory only, and bounded. Rests on GatewayAnswer.

import Crypto
import Martlet
import Synchronization

/// Sends that were accepted a moment ago, and those in progress.
package final class RetryTable: Sendable {
    typealias Attempt = Task<GatewayAnswer, any Error>

    private enum Phase {
        case inProgress(Attempt)
        case accepted(GatewayAnswer)
    }

    private struct Entry {
        var number: UInt64
        /// Where it came from.
        var connectionNumber: UInt64?
        var phase: Phase
    }

    private struct Accepted {
        var key: SHA256.Digest
        var number: UInt64
        var until: ContinuousClock.Instant
    }

    private struct State {
        var entries: [SHA256.Digest: Entry] = [:]
        /// In the order of their acceptance; all are kept equally long.
        var accepted: ArraySlice<Accepted> = []
        var lastNumber: UInt64 = 0
    }

    private let window: Duration
    private let entriesMax: Int
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - window: how long after its answer a send is recognised; zero: never, not even in progress.
    ///   - entriesMax: accepted sends that are remembered; the oldest is forgotten first.
    package init(
        window: Duration, entriesMax: Int = Limits.retriesRememberedMax,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now }
    ) {
        self.window = window
        self.entriesMax = entriesMax
        self.now = now
    }

    /// Answers as the same call was answered if it is one's repetition; else by `work`, which goes on
    /// when whoever called has gone.
    package func answer(
        _ call: GatewayCall, by work: @escaping @Sendable () async throws -> GatewayAnswer
    ) async throws -> GatewayAnswer {
        guard window > .zero, let caller = call.caller else { return try await work() }
        switch find(call, Self.key(call, caller), work) {
        case .inProgress(let attempt): return try await attempt.value
        case .accepted(let answer): return answer
        }
    }

    /// What there is, or a new attempt. Who sends again on the connection that the answer went out on
    /// has read it, and means another message.
    private func find(
        _ call: GatewayCall, _ key: SHA256.Digest,
        _ work: @escaping @Sendable () async throws -> GatewayAnswer
    ) -> Phase {
        state.withLock { state in
            forget(&state)
            if let known = state.entries[key] {
                guard case .accepted = known.phase, let number = call.connectionNumber,
                    number == known.connectionNumber
                else { return known.phase }
            }
            state.lastNumber += 1
            let number = state.lastNumber
            let attempt = Attempt {
                do {
                    let answer = try await work()
                    self.settle(key, number, answer)
                    return answer
                } catch {
                    self.settle(key, number, nil)
                    throw error
                }
            }
            let phase = Phase.inProgress(attempt)
            state.entries[key] = Entry(
                number: number, connectionNumber: call.connectionNumber, phase: phase)
            return phase
        }
    }

    private func settle(_ key: SHA256.Digest, _ number: UInt64, _ answer: GatewayAnswer?) {
        state.withLock { state in
            guard let answer, answer.status == 200 else {
                state.entries[key] = nil
                return
            }
            state.entries[key]?.phase = .accepted(answer)
            state.accepted.append(Accepted(key: key, number: number, until: now() + window))
            forget(&state)
        }
    }

    private func forget(_ state: inout State) {
        let now = now()
        while let first = state.accepted.first,
            first.until <= now || state.accepted.count > entriesMax
        {
            state.accepted.removeFirst()
            if state.entries[first.key]?.number == first.number { state.entries[first.key] = nil }
        }
    }

    /// Who sends what, where to. Parts say their length, so that none runs into the next.
    private static func key(_ call: GatewayCall, _ caller: Caller) -> SHA256.Digest {
        var hash = SHA256()
        let parts: [[UInt8]] = [
            Array(caller.projectID.utf8), Array(caller.keyID.utf8),
            Array(call.path.joined(separator: "/").utf8), call.body,
        ]
        for part in parts {
            withUnsafeBytes(of: UInt64(part.count).littleEndian) { hash.update(bufferPointer: $0) }
            hash.update(data: part)
        }
        return hash.finalize()
    }
}
