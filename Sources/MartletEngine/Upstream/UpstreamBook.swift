// SPDX-License-Identifier: Apache-2.0
//
// UPS-1: which sender has which message of a project's devices. A message is with one listener at a
// time, and only one thread hands any out: the committer's, after a transaction. Listeners are on
// several loops, or no connections at all, so each of them asking for itself would have to agree
// with all others on who gets what and whose turn it is. The committer knows first what has come
// and what was taken, wakes every loop anyway, and is the only one who moves on in the list. Loops
// say when a listener comes and goes, and wake the committer; so the lock is taken a few times for a
// batch and never for a message.
//
// Nothing of this is stored: in a broker that begins anew nobody has anything, and everything that
// was not acknowledged is handed out again.
//
//     readThrough   everything up to here was handed out, and is
//       held          with a listener, or was with several in turn, until it is acknowledged;
//       returned      or to be handed out again: its listener is gone, or had it for too long.
//
// Who has had a message for too long is never given it again, and it goes on filling that one's
// window: a sender that acknowledges nothing gets a window of messages and no more. Rests on
// UpstreamMessage.

public import MartletBase
import Synchronization

/// Who listens, and who has what. One value per broker.
public final class UpstreamBook: Sendable {
    /// How a listener gets its messages.
    public enum Destination: Sendable {
        /// A connection of this loop, which knows it by the listener's number.
        case loop(Int)
        /// Called on the thread that hands out.
        case caller(@Sendable ([UpstreamMessage]) -> Void)
    }

    /// What one listener is handed at a time.
    public struct Handing: Sendable {
        public var listener: UInt64
        public var destination: Destination
        public var messages: [UpstreamMessage]
    }

    private struct Listener {
        var project: ProjectNumber
        var destination: Destination
        /// Handed to it and not acknowledged.
        var held: Set<UInt64> = []
        /// The same in the order of their handing, with some that were acknowledged; without those
        /// that it has had for too long.
        var terms: [(number: UInt64, ends: Instant)] = []

        var room: Int { max(0, Limits.upstreamWindow - held.count) }

        /// - Returns: false if it has the message, or has had it for too long.
        mutating func take(_ number: UInt64, until ends: Instant) -> Bool {
            guard held.insert(number).inserted else { return false }
            if terms.count >= 4 * Limits.upstreamWindow {
                let held = held
                terms.removeAll { !held.contains($0.number) }
            }
            terms.append((number, ends))
            return true
        }
    }

    private struct Project {
        /// In the order in which they came.
        var listeners: [UInt64] = []
        /// Who was given a message last.
        var last: UInt64 = 0
        var readThrough: UInt64 = 0
        /// There may be messages behind that.
        var hasUnread = true
        /// Who has had a message; the last of them has it, unless it is returned.
        var held: [UInt64: [UInt64]] = [:]
        /// In the order in which they are handed out again.
        var returned = ReturnedNumbers()
        /// Messages that are kept nowhere, on their way to whoever has room.
        var passing: [UpstreamMessage] = []

        var hasWork: Bool {
            !listeners.isEmpty && (hasUnread || !returned.isEmpty || !passing.isEmpty)
        }
    }

    private struct State {
        var projects: [ProjectNumber: Project] = [:]
        var listeners: [UInt64: Listener] = [:]
        var listenersEver: UInt64 = 0
        /// Projects in which something may be handed out.
        var due: Set<ProjectNumber> = []
        /// When terms were looked at last.
        var looked = Instant(millisecondsSince1970: 0)
    }

    /// Messages of a project that are handed out before the committer sees to other things again.
    private static let perTurnMax = 256
    /// How often terms are looked at.
    private static let lookMilliseconds: Int64 = 1000

    private let state = Mutex(State())

    public init() {}

    // MARK: Listeners

    /// - Returns: the listener's number. Whoever commits is to be woken.
    public func listen(to project: ProjectNumber, _ destination: Destination) -> UInt64 {
        state.withLock { state in
            state.listenersEver += 1
            let number = state.listenersEver
            state.listeners[number] = Listener(project: project, destination: destination)
            state.projects[project, default: Project()].listeners.append(number)
            state.due.insert(project)
            return number
        }
    }

    /// What the listener has not acknowledged is handed out again. Whoever commits is to be woken.
    public func leave(_ number: UInt64) {
        state.withLock { state in
            guard let listener = state.listeners.removeValue(forKey: number) else { return }
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

    /// Tells callers, by no messages, that none will come any more.
    public func close() {
        let destinations = state.withLock { $0.listeners.values.map(\.destination) }
        for case .caller(let tell) in destinations { tell([]) }
    }

    /// Whether so many messages could be handed out now.
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

    // MARK: What whoever commits says

    /// A message was accepted for good.
    public func accepted(_ acceptance: UpstreamAcceptance) {
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

    /// Messages were taken, for good.
    public func taken(_ numbers: [UInt64], in number: ProjectNumber) {
        state.withLock { state in
            guard var project = state.projects[number] else { return }
            for message in numbers { Self.forget(message, &project, &state.listeners) }
            state.projects[number] = project
            state.due.insert(number)
        }
    }

    /// Whether there may be something to be handed out.
    public var isDue: Bool { state.withLock { !$0.due.isEmpty } }

    /// Hands out what there is to those who have room, some of it at a time.
    /// - Parameter read: `UpstreamMessage.find`, on a snapshot; nil if it could not be read. Then
    ///   that is
    ///   tried again when terms are looked at.
    public func handOut(
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

    /// Gives away what needs no reading, and the numbers of what is handed out again.
    private func begin(
        _ number: ProjectNumber, _ now: Instant, _ handings: inout [UInt64: Handing]
    ) -> (wanted: UpstreamMessage.Wanted, again: [UInt64: UInt64])? {
        state.withLock { state in
            guard var project = state.projects[number] else { return nil }
            guard project.hasWork else {
                // Everybody has left meanwhile, and now was never.
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
            // What nobody has room for waits for nobody.
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
                // There is room for others instead.
                state.due.insert(number)
            }
            for message in found.again {
                // Else its listener has left, and it is returned.
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
                    // Somebody has left between the two.
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

    /// Nothing of it could be read.
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

    /// Returns what somebody has had for too long, and has everything looked at that could not be
    /// handed out or read.
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

    /// Those of a project's listeners that have room, each in its turn.
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

        /// - Returns: who has the message now; nil: nobody with room who has not had it.
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
                project.last = number
                room -= 1
                candidates[index].room -= 1
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

/// Numbers in the order in which they came, each once.
private struct ReturnedNumbers {
    private var queue: [UInt64] = []
    private var first = 0
    private var isThere: Set<UInt64> = []

    var count: Int { isThere.count }
    var isEmpty: Bool { isThere.isEmpty }

    mutating func append(_ number: UInt64) {
        if isThere.insert(number).inserted { queue.append(number) }
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
