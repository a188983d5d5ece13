// SPDX-License-Identifier: Apache-2.0
//
// GW-8: SDKs send a message again by themselves when a connection breaks or an answer does not come in
// time, and callers send equal messages on purpose, also many at a time: `send_each([m] * 5)` is five
// equal requests on five threads. Both look the same but for what became of the first answer:
//
//   attempt ── answer written whole ──► forgotten: an equal call is a message of its own
//      │
//      └── connection or stream ended before ──► left: the next equal call is the attempt's repetition,
//                                                 gets its answer, and nothing is sent
//
// An equal call that comes while an attempt is in progress finds it left or not. SDKs close the
// connection or the stream of the first attempt before they repeat it; an attempt whose caller still
// waits is therefore not repeated, and the equal call is sent by itself. Whether the caller still waits
// is asked of the system first, because the event loop of the other connection may not have looked yet.
//
// The caller of an attempt may be gone before the attempt begins, and threads are not fair: the repetition
// may overtake the attempt, and even be answered before the attempt begins. A call whose caller has left joins
// an equal one that began after the call's bytes came to the system.
//
// What was refused is not kept: its repetition is a new attempt. Left attempts are kept for a window,
// in memory, bounded; the file beside it (UnansweredFile) lets the next process know them.
// Rests on AnswerDelivery.

import Martlet
import Synchronization

/// The attempts whose callers have not read an answer.
package final class RetryTable: Sendable {
    package typealias Work = @Sendable (SendAttempt?) async throws -> GatewayAnswer
    private typealias Run = Task<GatewayAnswer, any Error>

    private enum Phase {
        /// A caller waits for the answer. Can transition to: left; ends when the answer was written.
        case waited(AnswerDelivery?)
        /// No caller waits for the answer. Can transition to: waited; ends at the instant.
        case left(until: ContinuousClock.Instant)
    }

    private struct Entry {
        var attempt: SendAttempt
        /// nil: the process before this one made the attempt.
        var run: Run?
        var phase: Phase
        /// When the latest caller that waits or waited for it was served.
        var began: ContinuousClock.Instant

        var isLeft: Bool { if case .left = phase { true } else { false } }
    }

    private struct Left {
        var digest: RequestDigest
        var number: UInt64
        var until: ContinuousClock.Instant
    }

    /// What was answered a moment ago, for calls that it has overtaken.
    private struct Answered {
        var digest: RequestDigest
        var began: ContinuousClock.Instant
        var run: Run
    }

    private struct State {
        var entries: [RequestDigest: [Entry]] = [:]
        /// In the order of their ends; all are kept equally long. Has those too that a caller came for.
        var left: ArraySlice<Left> = []
        var answered: [RequestDigest: Answered] = [:]
        /// In the order in which they were answered.
        var answeredInOrder: ArraySlice<Answered> = []
        var freePlaces: [UInt32] = []
        var placeCount: UInt32 = 0
    }

    /// Connections of equal attempts that are asked for before a call is sent: an attempt that is left
    /// without the event loop's knowledge is among the oldest.
    private static let askedMax = 16

    /// How long a call may lie unread while its repetition is answered. Longer than an event loop was seen
    /// to be late on a machine with four busy threads a core.
    private static let lateness = Duration.seconds(10)
    /// The system's notes of when bytes came are as coarse as its clock ticks.
    private static let coarseness = Duration.milliseconds(10)

    private let window: Duration
    private let entriesMax: Int
    private let file: UnansweredFile?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state: Mutex<State>

    /// - Parameters:
    ///   - window: how long an attempt whose caller has left is recognised; zero: every call is sent.
    ///   - entriesMax: attempts that are left and remembered; the oldest is forgotten first.
    ///   - folder: where attempts are written down for the next process; nil: nowhere.
    package init(
        window: Duration, entriesMax: Int = Limits.retriesRememberedMax, folder: String? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now }
    ) {
        self.window = window
        self.entriesMax = entriesMax
        self.now = now
        file = window > .zero ? folder.flatMap { UnansweredFile(in: $0, window: window) } : nil
        let seconds = UnansweredFile.now
        var state = State()
        // Places in their order; what was left first is forgotten first.
        for send in file?.left ?? [] {
            state.freePlaces += state.placeCount..<send.attempt.place
            state.placeCount = send.attempt.place + 1
            let until = now() + window - .seconds(max(0, seconds - send.at))
            let entry = Entry(attempt: send.attempt, phase: .left(until: until), began: now())
            state.entries[send.digest, default: []].append(entry)
            state.left.append(
                Left(digest: send.digest, number: send.attempt.number, until: until))
        }
        state.left.sort { $0.until < $1.until }
        self.state = Mutex(state)
    }

    /// Answers as the same call was answered if `call` is its repetition; else by `work`, which goes on
    /// when the caller has gone.
    package func answer(
        _ call: GatewayCall, by work: @escaping Work
    ) async throws -> GatewayAnswer {
        guard window > .zero, let caller = call.caller else { return try await work(nil) }
        let digest = RequestDigest(of: call, by: caller)
        var came = now()
        if let others = equal(digest) {
            for delivery in others { await delivery.look() }
            if let age = await call.delivery?.look() { came = now() - age }
        }
        let (number, run) = take(digest, call.delivery, came: came, work)
        guard let number else { return try await run.value }
        guard let delivery = call.delivery else {
            // Nobody watches this answer's way, so the caller has it when this returns.
            defer { end(digest, number, isWhole: true) }
            return try await run.value
        }
        delivery.whenEnded { [weak self] in self?.end(digest, number, isWhole: $0) }
        return try await run.value
    }

    /// The deliveries of equal attempts in progress; nil if there is no equal attempt, and was none.
    private func equal(_ digest: RequestDigest) -> [AnswerDelivery]? {
        state.withLock { state in
            let entries = state.entries[digest, default: []]
            guard !entries.isEmpty || state.answered[digest] != nil else { return nil }
            return entries.prefix(Self.askedMax).compactMap { entry in
                if case .waited(let delivery) = entry.phase { delivery } else { nil }
            }
        }
    }

    /// The oldest attempt that is left, or a new one.
    /// - Returns: no number where the call is another caller's attempt already.
    private func take(
        _ digest: RequestDigest, _ delivery: AnswerDelivery?, came: ContinuousClock.Instant,
        _ work: @escaping Work
    ) -> (number: UInt64?, Run) {
        state.withLock { state in
            forget(&state)
            let now = now()
            if delivery?.isLost == true {
                let isLater = { came <= $0 + Self.coarseness }
                let later = state.entries[digest]?.first { !$0.isLeft && isLater($0.began) }?.run
                let answered = state.answered[digest].flatMap { isLater($0.began) ? $0.run : nil }
                if let run = later ?? answered { return (nil, run) }
            }
            if let index = state.entries[digest]?.firstIndex(where: \.isLeft),
                var entry = state.entries[digest]?[index]
            {
                let run = entry.run ?? begin(entry.attempt, digest, work)
                entry.run = run
                entry.phase = .waited(delivery)
                entry.began = now
                state.entries[digest]?[index] = entry
                return (entry.attempt.number, run)
            }
            let place = state.freePlaces.popLast() ?? state.placeCount
            state.placeCount = max(state.placeCount, place + 1)
            let attempt = SendAttempt(place: place, number: .random(in: 1...UInt64.max))
            file?.put(
                UnansweredSend(attempt: attempt, digest: digest, at: UnansweredFile.now))
            let run = begin(attempt, digest, work)
            state.entries[digest, default: []].append(
                Entry(attempt: attempt, run: run, phase: .waited(delivery), began: now))
            return (attempt.number, run)
        }
    }

    private func begin(
        _ attempt: SendAttempt, _ digest: RequestDigest, _ work: @escaping Work
    ) -> Run {
        Run {
            do {
                let answer = try await work(attempt)
                if answer.status != 200 { self.remove(digest, attempt.number) }
                return answer
            } catch {
                self.remove(digest, attempt.number)
                throw error
            }
        }
    }

    private func end(_ digest: RequestDigest, _ number: UInt64, isWhole: Bool) {
        state.withLock { state in
            let index = state.entries[digest]?.firstIndex { $0.attempt.number == number }
            guard let index, let entry = state.entries[digest]?[index] else { return }
            guard !isWhole else {
                if let run = entry.run {
                    let answered = Answered(digest: digest, began: entry.began, run: run)
                    state.answered[digest] = answered
                    state.answeredInOrder.append(answered)
                }
                return remove(digest, number, &state)
            }
            let until = now() + window
            state.entries[digest]?[index].phase = .left(until: until)
            file?.put(
                UnansweredSend(attempt: entry.attempt, digest: digest, at: UnansweredFile.now))
            state.left.append(Left(digest: digest, number: number, until: until))
            forget(&state)
        }
    }

    private func remove(_ digest: RequestDigest, _ number: UInt64) {
        state.withLock { remove(digest, number, &$0) }
    }

    private func remove(_ digest: RequestDigest, _ number: UInt64, _ state: inout State) {
        guard var entries = state.entries[digest],
            let index = entries.firstIndex(where: { $0.attempt.number == number })
        else { return }
        let place = entries.remove(at: index).attempt.place
        state.entries[digest] = entries.isEmpty ? nil : entries
        file?.remove(place: place)
        state.freePlaces.append(place)
    }

    private func forget(_ state: inout State) {
        let now = now()
        while let first = state.answeredInOrder.first,
            first.began + Self.lateness <= now || state.answeredInOrder.count > entriesMax
        {
            state.answeredInOrder.removeFirst()
            if state.answered[first.digest]?.began == first.began {
                state.answered[first.digest] = nil
            }
        }
        while let first = state.left.first, first.until <= now || state.left.count > entriesMax {
            state.left.removeFirst()
            let entry = state.entries[first.digest]?.first { $0.attempt.number == first.number }
            // A caller may have come for the attempt, and have left as well.
            guard case .left(let until)? = entry?.phase, until == first.until else { continue }
            remove(first.digest, first.number, &state)
        }
    }
}
