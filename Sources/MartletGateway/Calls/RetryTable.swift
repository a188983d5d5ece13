// SPDX-License-Identifier: Apache-2.0
//
// Recognises retried sends (GW-8). An SDK repeats a send by itself after a broken connection or a late answer. Callers also
// send equal messages on purpose, many at a time: `send_each([m] * 5)` makes five equal requests on five threads. Only the
// fate of the first answer tells the two cases apart:
//
//   attempt ── answer written whole ──► forgotten: an equal call is a new message
//      │
//      └── connection or stream ended early ──► left: the next equal call is the attempt's repetition;
//                                                the call gets the attempt's answer, and sends no message
//
// An equal call may come while an attempt is in progress. SDKs close the connection or stream of the first attempt
// before the repetition. So an attempt with a waiting caller is not repeated, and the equal call is a message of its
// own. The table first asks the system whether the caller still waits, because the event loop of the other connection
// may not have looked yet.
//
// The caller of an attempt may be gone before the attempt begins. Threads are not fair: the repetition may overtake
// the attempt, and may even be answered before the attempt begins. A call whose caller has left therefore joins an
// equal attempt if the attempt began after the call's bytes reached the system.
//
// A refused attempt is not kept, so its repetition is a new attempt. Left attempts are kept in memory for `window`,
// at most `entriesMax` at a time. `UnansweredFile` hands the attempts to the next process. Rests on AnswerDelivery.

import Martlet
import Synchronization

/// Attempts whose callers have not read an answer.
package final class RetryTable: Sendable {
    package typealias Work = @Sendable (SendAttempt?) async throws -> GatewayAnswer
    private typealias Run = Task<GatewayAnswer, any Error>

    private enum Phase {
        /// A caller waits for the answer. Ends when the answer was written whole. Can transition to: left.
        case waited(AnswerDelivery?)
        /// No caller waits for the answer. Ends at `until`. Can transition to: waited.
        case left(until: ContinuousClock.Instant)
    }

    private struct Entry {
        var attempt: SendAttempt
        /// The work on the attempt; nil for an attempt of the previous process, and when `answer` is there.
        var run: Run?
        var phase: Phase
        /// Instant at which the attempt's latest caller was served.
        var began: ContinuousClock.Instant
        /// The answer, which is kept in place of the work: a task keeps kilobytes.
        var answer: GatewayAnswer?

        var turn: Turn? { answer.map { .answered($0) } ?? run.map { .joined($0) } }
        var isLeft: Bool { if case .left = phase { true } else { false } }
    }

    private struct Left {
        var digest: RequestDigest
        var number: UInt64
        var until: ContinuousClock.Instant
    }

    /// An attempt answered a moment ago. A call that the attempt has overtaken gets the same answer.
    private struct Answered {
        var answer: GatewayAnswer
        var began: ContinuousClock.Instant
    }

    /// What a call waits for.
    private enum Turn {
        /// The work of another caller's attempt.
        case joined(Run)
        case answered(GatewayAnswer)
        /// The call's own attempt.
        case taken(number: UInt64, Run)
    }

    private struct State {
        var entries: [RequestDigest: [Entry]] = [:]
        /// Left attempts in the order of their ends, because all are kept equally long. An attempt with a new caller
        /// stays in the list.
        var left: ArraySlice<Left> = []
        var answered: [RequestDigest: Answered] = [:]
        /// Answered attempts in the order of their answers.
        var answeredInOrder: ArraySlice<(digest: RequestDigest, began: ContinuousClock.Instant)> =
            []
        /// Whether a task comes later to forget answers. Without it, the answers of a burst would stay until the next send.
        var isForgetting = false
        var freePlaces: [UInt32] = []
        /// Places whose rows are still to be cleared, because the disk hung: a row that is left would swallow a message.
        var unclearedPlaces: [UInt32] = []
        var placeCount: UInt32 = 0
    }

    /// Equal attempts whose connections are asked about before a send. Sixteen are enough, because an attempt left
    /// without the event loop's knowledge is among the oldest.
    private static let askedMax = 16

    /// Longest time for which a call may lie unread while its repetition is answered. Ten seconds exceed every delay
    /// of an event loop seen on a machine with four busy threads per core.
    private static let lateness = Duration.seconds(10)
    /// Tolerance for the system's receive times, which are as coarse as the system's clock ticks.
    private static let coarseness = Duration.milliseconds(10)

    private let window: Duration
    private let entriesMax: Int
    private let file: UnansweredFile?
    private let isDiskHanging: @Sendable () -> Bool
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state: Mutex<State>

    /// Whether the next process will know of the attempts left by this process.
    var isKept: Bool { file != nil }

    /// - Parameters:
    ///   - window: time for which a left attempt is recognised; with zero, every call is sent.
    ///   - entriesMax: left attempts in memory; past the bound, the oldest is forgotten first.
    ///   - folder: folder of the file for the next process; nil: no file.
    ///   - isDiskHanging: whether a write to the file may wait for long. The end of a connection must not.
    package init(
        window: Duration, entriesMax: Int = Limits.retriesRememberedMax, folder: String? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now },
        isDiskHanging: @escaping @Sendable () -> Bool = { false }
    ) {
        self.window = window
        self.entriesMax = entriesMax
        self.now = now
        self.isDiskHanging = isDiskHanging
        file = window > .zero ? folder.flatMap { UnansweredFile(in: $0, window: window) } : nil
        let seconds = UnansweredFile.now
        var state = State()
        // The file has its rows in the order of places. `left` is sorted below, because the oldest is forgotten
        // first.
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

    /// Answers a repetition with the first attempt's answer, and any other call by `work`. `work` goes on after its
    /// caller has left.
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
        switch take(digest, call.delivery, came: came, work) {
        case .joined(let run): return try await run.value
        case .answered(let answer): return answer
        case .taken(let number, let run):
            call.delivery?.whenEnded { [weak self] in self?.end(digest, number, isWhole: $0) }
            // Without a delivery no handler watches, so the caller has the answer when `answer` returns.
            defer { if call.delivery == nil { end(digest, number, isWhole: true) } }
            let answer = try await run.value
            note(answer, of: number, digest)
            return answer
        }
    }

    /// Keeps the answer of an attempt, and not its work.
    private func note(_ answer: GatewayAnswer, of number: UInt64, _ digest: RequestDigest) {
        state.withLock { state in
            guard
                let index = state.entries[digest]?.firstIndex(where: { $0.attempt.number == number }
                )
            else { return }
            state.entries[digest]?[index].answer = answer
            state.entries[digest]?[index].run = nil
        }
    }

    /// Deliveries of equal attempts in progress; nil if the table has no equal attempt, in progress, left or
    /// answered.
    private func equal(_ digest: RequestDigest) -> [AnswerDelivery]? {
        state.withLock { state in
            let entries = state.entries[digest, default: []]
            guard !entries.isEmpty || state.answered[digest] != nil else { return nil }
            return entries.prefix(Self.askedMax).compactMap { entry in
                if case .waited(let delivery) = entry.phase { delivery } else { nil }
            }
        }
    }

    /// Takes the oldest left attempt, or begins a new attempt.
    private func take(
        _ digest: RequestDigest, _ delivery: AnswerDelivery?, came: ContinuousClock.Instant,
        _ work: @escaping Work
    ) -> Turn {
        state.withLock { state in
            forget(&state)
            let now = now()
            if delivery?.isLost == true {
                let isLater = { came <= $0 + Self.coarseness }
                let later = state.entries[digest]?.first { !$0.isLeft && isLater($0.began) }?.turn
                if let later { return later }
                if let answered = state.answered[digest], isLater(answered.began) {
                    return .answered(answered.answer)
                }
            }
            if let index = state.entries[digest]?.firstIndex(where: \.isLeft),
                var entry = state.entries[digest]?[index]
            {
                let answered = entry.answer.map { answer in Run { answer } }
                let run = answered ?? entry.run ?? begin(entry.attempt, digest, work)
                entry.run = run
                entry.phase = .waited(delivery)
                entry.began = now
                state.entries[digest]?[index] = entry
                return .taken(number: entry.attempt.number, run)
            }
            let place = state.freePlaces.popLast() ?? state.placeCount
            state.placeCount = max(state.placeCount, place + 1)
            let attempt = SendAttempt(place: place, number: .random(in: 1...UInt64.max))
            let run = begin(attempt, digest, work)
            state.entries[digest, default: []].append(
                Entry(attempt: attempt, run: run, phase: .waited(delivery), began: now))
            return .taken(number: attempt.number, run)
        }
    }

    private func begin(
        _ attempt: SendAttempt, _ digest: RequestDigest, _ work: @escaping Work
    ) -> Run {
        Run {
            do {
                // Outside the table's lock, because the disk may hang.
                file?.put(UnansweredSend(attempt: attempt, digest: digest, at: UnansweredFile.now))
                let answer = try await work(attempt)
                if !(200..<300).contains(answer.status) { self.remove(digest, attempt.number) }
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
                if let answer = entry.answer {
                    state.answered[digest] = Answered(answer: answer, began: entry.began)
                    state.answeredInOrder.append((digest, entry.began))
                    forgetLater(&state)
                }
                return remove(digest, number, &state)
            }
            let until = now() + window
            state.entries[digest]?[index].phase = .left(until: until)
            if !isDiskHanging() {
                file?.put(
                    UnansweredSend(attempt: entry.attempt, digest: digest, at: UnansweredFile.now))
            }
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
        state.unclearedPlaces.append(place)
        guard !isDiskHanging() else { return }
        for place in state.unclearedPlaces { file?.remove(place: place) }
        state.freePlaces += state.unclearedPlaces
        state.unclearedPlaces.removeAll(keepingCapacity: true)
    }

    /// Comes back when the answers of now are to be forgotten.
    private func forgetLater(_ state: inout State) {
        guard !state.isForgetting else { return }
        state.isForgetting = true
        Task { [weak self] in
            try? await Task.sleep(for: Self.lateness)
            self?.forgetOld()
        }
    }

    /// Forgets what is too old, and comes back while answers are left.
    package func forgetOld() {
        state.withLock { state in
            state.isForgetting = false
            forget(&state)
            if !state.answeredInOrder.isEmpty { forgetLater(&state) }
        }
    }

    /// Answers that are kept for calls that they have overtaken.
    package var answeredCount: Int { state.withLock { $0.answeredInOrder.count } }

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
        // An empty table gives the memory of a burst back.
        if state.answeredInOrder.isEmpty { (state.answered, state.answeredInOrder) = ([:], []) }
        while let first = state.left.first, first.until <= now || state.left.count > entriesMax {
            state.left.removeFirst()
            let entry = state.entries[first.digest]?.first { $0.attempt.number == first.number }
            // A new caller may have taken the attempt meanwhile, and may have left again with a later end.
            guard case .left(let until)? = entry?.phase, until == first.until else { continue }
            remove(first.digest, first.number, &state)
        }
    }
}
