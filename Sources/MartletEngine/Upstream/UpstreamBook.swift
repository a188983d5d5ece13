// SPDX-License-Identifier: Apache-2.0
//
// Hands devices' messages to listeners (UPS-1), each to one at a time. Only the committer's thread does this, after
// a transaction. Listeners are on several loops, or belong to embedders without a connection, so several threads would have
// to agree on messages and turns. The committer hears of new and taken messages first, wakes every loop anyway, and is the
// only one to move `readThrough`. When a listener comes or goes, its loop reports it and wakes the committer. So the lock is
// taken a few times per batch, never per message.
//
// Of several nodes the active one hands out (OPS-7). Another node's book keeps that node's listeners, announces them to the
// active node, and passes on what comes from there.
//
// The book isn't stored. After a restart no listener has anything, and everything unacknowledged is handed out again.
//
//     readThrough   messages up to here were handed out. Each one is
//       held          by a listener, or was by several in turn, until it is acknowledged,
//       returned      or to be handed out again: its listener has left, or had it for too long.
//
// A listener that has had a message for too long never gets it again, but it still takes a place in its window. So a sender
// that acknowledges nothing gets a window of messages and no more. Rests on UpstreamMessage.

package import MartletBase
import Synchronization

/// A broker's listeners, and what each of them has.
package final class UpstreamBook: Sendable {
    /// How to reach a listener.
    package enum Destination: Sendable {
        /// A connection on the loop of this number, which finds it by the listener's number.
        case loop(Int)
        /// An embedder's function, called on the thread that hands out. An empty array means that no more will come.
        case caller(@Sendable ([UpstreamMessage]) -> Void)
        /// Another node's listener, by a function that hands the messages to that node (OPS-7).
        case node(@Sendable ([UpstreamMessage]) -> Void)

        /// Whether the listener is of another node.
        var isForwarded: Bool { if case .node = self { true } else { false } }
    }

    /// A change among our listeners, for the node that hands out (OPS-7).
    package enum Change: Sendable, Hashable {
        case listen(UInt64, to: ProjectNumber)
        case retire(UInt64, of: ProjectNumber, keeping: [UInt64])
        case leave(UInt64, of: ProjectNumber)
        /// Messages that this node has dropped.
        case taken([UInt64], in: ProjectNumber)
    }

    /// Messages handed to a listener by one call of `handOut`.
    package struct Handing: Sendable {
        /// Number of the listener.
        package var listener: UInt64
        /// Way to the listener.
        package var destination: Destination
        /// Messages to be handed to the listener, in the order of handing.
        package var messages: [UpstreamMessage]
    }

    private struct Listener {
        var project: ProjectNumber
        var destination: Destination
        /// Messages handed to the listener and not acknowledged.
        var held: Set<UInt64> = []
        /// When the terms end, in the order of handing. May contain acknowledged messages, but none whose term has
        /// ended.
        var terms: [(number: UInt64, ends: Instant)] = []
        /// Whether the listener gets nothing more.
        var isRetired = false

        var room: Int { isRetired ? 0 : max(0, Limits.upstreamWindow - held.count) }

        /// Forgets the listener's messages.
        mutating func forget() {
            held = []
            terms = []
        }

        /// - Returns: false if it has the message, or has had it for too long.
        mutating func take(_ number: UInt64, until ends: Instant) -> Bool {
            guard held.insert(number).inserted else { return false }
            invariant(
                held.count <= Limits.upstreamWindow, "A listener holds no more than its window.")
            if terms.count >= 4 * Limits.upstreamWindow {
                let held = held
                terms.removeAll { !held.contains($0.number) }
            }
            terms.append((number, ends))
            return true
        }
    }

    private struct Project {
        /// Numbers of the listeners, in the order of arrival.
        var listeners: [UInt64] = []
        /// The listener that got the last message.
        var last: UInt64 = 0
        /// Messages up to this number were handed out.
        var readThrough: UInt64 = 0
        /// Whether there may be messages behind `readThrough`.
        var hasUnread = true
        /// By message: who has had it. The last one still has it, unless it was returned.
        var held: [UInt64: [UInt64]] = [:]
        /// Messages to be handed out again, in order.
        var returned = ReturnedNumbers()
        /// Accepted now-or-never messages, which the next `handOut` hands out or drops.
        var passing: [UpstreamMessage] = []

        var hasWork: Bool {
            !listeners.isEmpty && (hasUnread || !returned.isEmpty || !passing.isEmpty)
        }
    }

    private struct State {
        var projects: [ProjectNumber: Project] = [:]
        var listeners: [UInt64: Listener] = [:]
        var listenersEver: UInt64 = 0
        /// Projects with work for `handOut`.
        var due: Set<ProjectNumber> = []
        /// When the terms were last checked.
        var looked = Instant(millisecondsSince1970: 0)
        /// Whether another node hands out, and what it hasn't been told of yet (OPS-7).
        var isRelaying = false
        var changes: [Change] = []

        mutating func note(_ change: Change) { if isRelaying { changes.append(change) } }

        mutating func forgetRelayed(_ numbers: [UInt64], in project: ProjectNumber) {
            for listener in projects[project]?.listeners ?? [] {
                listeners[listener]?.held.subtract(numbers)
            }
        }
    }

    /// Most messages of a project in a call, so the committer can turn to other work.
    private static let perTurnMax = 256
    /// Milliseconds between two checks of terms.
    private static let lookMilliseconds: Int64 = 1000

    private let state = Mutex(State())

    /// Makes a book without listeners and messages.
    package init() {}

    // MARK: Listeners

    /// Adds a listener. The caller then wakes the committer.
    /// - Returns: the number of the listener.
    package func listen(to project: ProjectNumber, _ destination: Destination) -> UInt64 {
        state.withLock { state in
            state.listenersEver += 1
            let number = state.listenersEver
            let before = state.listeners.updateValue(
                Listener(project: project, destination: destination), forKey: number)
            invariant(before == nil, "The numbers of listeners are given once.")
            state.projects[project, default: Project()].listeners.append(number)
            state.due.insert(project)
            if !destination.isForwarded { state.note(.listen(number, to: project)) }
            return number
        }
    }

    /// Removes a listener; what it hasn't acknowledged is handed out again. Then wake the committer.
    package func leave(_ number: UInt64) {
        state.withLock { state in
            guard let listener = state.listeners.removeValue(forKey: number) else { return }
            if !listener.destination.isForwarded {
                state.note(.leave(number, of: listener.project))
            }
            var project = state.projects[listener.project] ?? Project()
            project.listeners.removeAll { $0 == number }
            for message in listener.held.sorted() {
                guard var holders = project.held[message] else { continue }
                if holders.last == number { project.returned.append(message) }
                holders.removeAll { $0 == number }
                project.held[message] = holders.isEmpty ? nil : holders
            }
            state.projects[listener.project] = project
            state.due.insert(listener.project)
        }
    }

    /// Gives a listener no more messages. Those that it may still acknowledge stay with it until `leave`, or until their terms
    /// end. Then wake the committer.
    /// - Parameter kept: those that stay; all others are handed out again at once.
    package func retire(_ number: UInt64, keeping kept: Set<UInt64>) {
        state.withLock { state in
            guard var listener = state.listeners[number] else { return }
            listener.isRetired = true
            state.note(.retire(number, of: listener.project, keeping: kept.sorted()))
            var project = state.projects[listener.project] ?? Project()
            for message in listener.held.subtracting(kept).sorted() {
                listener.held.remove(message)
                guard var holders = project.held[message] else { continue }
                if holders.last == number { project.returned.append(message) }
                holders.removeAll { $0 == number }
                project.held[message] = holders.isEmpty ? nil : holders
            }
            state.listeners[number] = listener
            state.projects[listener.project] = project
            state.due.insert(listener.project)
        }
    }

    /// Tells embedders the end of messages, by an empty array.
    package func close() {
        let destinations = state.withLock { $0.listeners.values.map(\.destination) }
        for case .caller(let tell) in destinations { tell([]) }
    }

    // MARK: Other nodes

    /// Another node hands out from now on, so all listeners' messages are forgotten. Our listeners stay, and listen to that
    /// node (OPS-7).
    /// - Parameter isRelaying: whether another node hands out from now on.
    package func beginAnew(isRelaying: Bool) {
        state.withLock { state in
            var new = State()
            new.listenersEver = state.listenersEver
            new.isRelaying = isRelaying
            for (number, var listener) in state.listeners where !listener.destination.isForwarded {
                listener.forget()
                new.listeners[number] = listener
                new.projects[listener.project, default: Project()].listeners.append(number)
                new.due.insert(listener.project)
            }
            for project in new.projects.keys { new.projects[project]?.listeners.sort() }
            state = new
        }
    }

    /// This node's listeners, for a node that hands out and knows of none (OPS-7).
    package func beginRelay() -> [Change] {
        state.withLock { state in
            state.changes = []
            for number in state.listeners.keys { state.listeners[number]?.forget() }
            return state.listeners.sorted { $0.key < $1.key }.compactMap { number, listener in
                listener.destination.isForwarded || listener.isRetired
                    ? nil : .listen(number, to: listener.project)
            }
        }
    }

    /// The changes since the last call (OPS-7).
    package func takeChanges() -> [Change] {
        state.withLock { state in
            defer { if !state.changes.isEmpty { state.changes = [] } }
            return state.changes
        }
    }

    /// Messages have come for a listener of this node (OPS-7).
    /// - Returns: the way to it; nil if it has left.
    package func relayed(_ numbers: [UInt64], to number: UInt64) -> Destination? {
        state.withLock { state in
            guard state.isRelaying, var listener = state.listeners[number] else { return nil }
            listener.held.formUnion(numbers)
            // We don't hear of what another listener has acknowledged. The rest is bounded to a window by the node that hands
            // out.
            let excess = listener.held.count - 4 * Limits.upstreamWindow
            if excess > 0 { listener.held.subtract(listener.held.sorted().prefix(excess)) }
            state.listeners[number] = listener
            return listener.destination
        }
    }

    /// Our listeners' messages were acknowledged. The node that hands out knows that from the row (OPS-7).
    package func acknowledged(_ numbers: [UInt64], in project: ProjectNumber) {
        state.withLock { state in
            if state.isRelaying { state.forgetRelayed(numbers, in: project) }
        }
    }

    /// Whether the project's listeners have room for `count` messages.
    func hasRoom(for count: Int, in project: ProjectNumber) -> Bool {
        state.withLock { state in
            var room = 0
            for number in state.projects[project]?.listeners ?? [] {
                room += state.listeners[number]?.room ?? 0
                if room >= count { return true }
            }
            return false
        }
    }

    /// What a listener was handed and nobody has acknowledged, at most `Limits.upstreamWindow`. Not what another listener has
    /// acknowledged, or what has expired.
    package func held(by listener: UInt64) -> Set<UInt64> {
        state.withLock { $0.listeners[listener]?.held ?? [] }
    }

    // MARK: The committer's side

    /// A message's acceptance is durable.
    package func accepted(_ acceptance: UpstreamAcceptance) {
        guard acceptance.isForSenders else { return }
        state.withLock { state in
            let number = acceptance.project
            guard var project = state.projects[number] else { return }
            if let passing = acceptance.passing {
                project.passing.append(passing)
            } else {
                project.hasUnread = true
            }
            state.projects[number] = project
            state.due.insert(number)
        }
    }

    /// Messages were acknowledged durably, or a loop has dropped them.
    package func taken(_ numbers: [UInt64], in number: ProjectNumber) {
        state.withLock { state in
            if state.isRelaying {
                state.note(.taken(numbers, in: number))
                state.forgetRelayed(numbers, in: number)
            }
            guard var project = state.projects[number] else { return }
            for message in numbers { Self.forget(message, &project, &state.listeners) }
            state.projects[number] = project
            state.due.insert(number)
        }
    }

    /// Whether a project may have messages to hand out.
    package var isDue: Bool { state.withLock { !$0.due.isEmpty } }

    /// Hands out messages to listeners that have room, a bounded number per call.
    /// - Parameter read: calls `UpstreamMessage.find` on a snapshot; nil if the store couldn't be read, which is tried again at
    ///   the next check of terms.
    /// - Returns: the messages for each listener, in the order of listeners.
    package func handOut(
        now: Instant, read: (UpstreamMessage.Wanted) -> UpstreamMessage.Found?
    ) -> [Handing] {
        let due = state.withLock { state in
            Self.endTerms(&state, now)
            defer { state.due.removeAll() }
            return state.due.sorted()
        }
        var handings: [UInt64: Handing] = [:]
        for project in due {
            guard let (wanted, again) = begin(project, now, &handings) else { continue }
            if let found = read(wanted) {
                finish(project, found, again, now, &handings)
            } else {
                giveBack(again, in: project)
            }
        }
        return handings.values.sorted { $0.listener < $1.listener }
    }

    // MARK: Handing out

    /// Hands out passing messages without a reading, and assigns returned messages to listeners.
    private func begin(
        _ number: ProjectNumber, _ now: Instant, _ handings: inout [UInt64: Handing]
    ) -> (wanted: UpstreamMessage.Wanted, again: [UInt64: UInt64])? {
        state.withLock { state in
            guard var project = state.projects[number] else { return nil }
            guard project.hasWork else {
                // All listeners have left, so the now-or-never messages are dropped.
                state.projects[number]?.passing = []
                return nil
            }
            var round = Round(project, state.listeners)
            for message in project.passing {
                guard
                    let listener = round.give(message.number, &project, &state.listeners, now)
                else { break }
                handings.add(message, to: listener, state.listeners[listener]!.destination)
            }
            // No listener has room for these now-or-never messages, so they are dropped.
            project.passing = []
            var again: [UInt64: UInt64] = [:]
            for _ in 0..<project.returned.count {
                guard round.hasRoom, again.count < Self.perTurnMax,
                    let message = project.returned.popFirst()
                else { break }
                if let listener = round.give(message, &project, &state.listeners, now) {
                    again[message] = listener
                } else {
                    project.returned.append(message)
                }
            }
            let room = min(round.room, Self.perTurnMax - again.count)
            let wanted = UpstreamMessage.Wanted(
                project: number, numbers: again.keys.sorted(), after: project.readThrough,
                limit: project.hasUnread ? max(0, room) : 0)
            if again.count == Self.perTurnMax { state.due.insert(number) }
            state.projects[number] = project
            return wanted.limit > 0 || !again.isEmpty ? (wanted, again) : nil
        }
    }

    private func finish(
        _ number: ProjectNumber, _ found: UpstreamMessage.Found, _ again: [UInt64: UInt64],
        _ now: Instant, _ handings: inout [UInt64: Handing]
    ) {
        state.withLock { state in
            guard var project = state.projects[number] else { return }
            let isThere = Set(found.again.map(\.number))
            for message in again.keys where !isThere.contains(message) {
                Self.forget(message, &project, &state.listeners)
                // The missing message leaves room for another.
                state.due.insert(number)
            }
            for message in found.again {
                // Otherwise the listener has left, and the message was returned.
                guard let number = again[message.number],
                    let listener = state.listeners[number]
                else { continue }
                handings.add(message, to: number, listener.destination)
            }
            var round = Round(project, state.listeners)
            var hasLeft = false
            for message in found.next {
                if let number = round.give(message.number, &project, &state.listeners, now) {
                    handings.add(message, to: number, state.listeners[number]!.destination)
                } else {
                    // A listener has left between `begin` and `finish`.
                    project.returned.append(message.number)
                    hasLeft = true
                }
            }
            if found.readThrough > project.readThrough || !found.hasMore {
                project.readThrough = max(project.readThrough, found.readThrough)
                project.hasUnread = found.hasMore
            }
            if project.hasUnread, round.hasRoom || hasLeft, !project.listeners.isEmpty {
                state.due.insert(number)
            }
            state.projects[number] = project
        }
    }

    /// Returns messages to the book, because the store could not be read.
    private func giveBack(_ again: [UInt64: UInt64], in number: ProjectNumber) {
        state.withLock { state in
            guard var project = state.projects[number] else { return }
            for (message, listener) in again.sorted(by: { $0.key < $1.key }) {
                guard state.listeners[listener]?.held.remove(message) != nil else { continue }
                state.listeners[listener]?.terms.removeAll { $0.number == message }
                project.held[message]?.removeAll { $0 == listener }
                if project.held[message]?.isEmpty ?? false { project.held[message] = nil }
                project.returned.append(message)
            }
            state.projects[number] = project
        }
    }

    /// Returns messages whose terms have ended. Then marks all projects that have work as due, because messages may have found
    /// no room, or couldn't be read.
    private static func endTerms(_ state: inout State, _ now: Instant) {
        // The clock may be set back.
        guard now.rawValue - state.looked.rawValue >= lookMilliseconds || now < state.looked else {
            return
        }
        state.looked = now
        for (number, listener) in state.listeners.sorted(by: { $0.key < $1.key }) {
            var count = 0
            for term in listener.terms {
                let isHeld = listener.held.contains(term.number)
                guard !isHeld || term.ends <= now else { break }
                count += 1
                if isHeld, state.projects[listener.project]?.held[term.number]?.last == number {
                    state.projects[listener.project]?.returned.append(term.number)
                }
            }
            if count > 0 { state.listeners[number]?.terms.removeFirst(count) }
        }
        for (number, project) in state.projects where project.hasWork { state.due.insert(number) }
    }

    private static func forget(
        _ message: UInt64, _ project: inout Project, _ listeners: inout [UInt64: Listener]
    ) {
        project.returned.remove(message)
        for number in project.held.removeValue(forKey: message) ?? [] {
            listeners[number]?.held.remove(message)
        }
    }

    /// A project's listeners with room, in the order of turns.
    private struct Round {
        private var candidates: [(number: UInt64, room: Int)]
        private var next = 0
        private(set) var room: Int

        init(_ project: Project, _ listeners: [UInt64: Listener]) {
            let split = project.listeners.firstIndex { $0 > project.last } ?? 0
            let order = project.listeners[split...] + project.listeners[..<split]
            candidates = order.compactMap { number in
                let room = listeners[number]?.room ?? 0
                return room > 0 ? (number, room) : nil
            }
            room = candidates.reduce(0) { $0 + $1.room }
        }

        var hasRoom: Bool { room > 0 }

        /// - Returns: the message's new listener; nil if each that has room has had it before.
        mutating func give(
            _ message: UInt64, _ project: inout Project, _ listeners: inout [UInt64: Listener],
            _ now: Instant
        ) -> UInt64? {
            let ends = now.advanced(bySeconds: Int64(Limits.upstreamTakingSeconds))
            for step in 0..<candidates.count {
                let index = (next + step) % candidates.count
                let number = candidates[index].number
                guard listeners[number]?.take(message, until: ends) ?? false else { continue }
                project.held[message, default: []].append(number)
                invariant(
                    candidates[index].room > 0, "A listener without room gets no message.")
                project.last = number
                room -= 1
                candidates[index].room -= 1
                invariant(room >= 0, "The listeners of a project have no less than no room.")
                if candidates[index].room == 0 {
                    candidates.remove(at: index)
                    next = index
                } else {
                    next = index + 1
                }
                return number
            }
            return nil
        }
    }
}

/// A queue of numbers without repetitions.
private struct ReturnedNumbers {
    private var queue: [UInt64] = []
    private var first = 0
    private var isThere: Set<UInt64> = []

    var count: Int { isThere.count }
    var isEmpty: Bool { isThere.isEmpty }

    mutating func append(_ number: UInt64) {
        if isThere.insert(number).inserted { queue.append(number) }
        invariant(isThere.count <= queue.count - first, "Each returned number is in the queue.")
    }

    mutating func remove(_ number: UInt64) {
        guard isThere.remove(number) != nil, isThere.isEmpty else { return }
        queue.removeAll()
        first = 0
    }

    mutating func popFirst() -> UInt64? {
        while first < queue.count {
            let number = queue[first]
            first += 1
            if 2 * first >= queue.count {
                queue.removeFirst(first)
                first = 0
            }
            if isThere.remove(number) != nil { return number }
        }
        return nil
    }
}

extension [UInt64: UpstreamBook.Handing] {
    fileprivate mutating func add(
        _ message: UpstreamMessage, to listener: UInt64, _ destination: UpstreamBook.Destination
    ) {
        self[
            listener,
            default: UpstreamBook.Handing(
                listener: listener, destination: destination, messages: [])
        ].messages.append(message)
    }
}
