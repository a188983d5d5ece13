// SPDX-License-Identifier: Apache-2.0
//
// Bytes of unanswered requests, and of frames that have not arrived whole (OPS-5, NET-3). A connection that
// asks faster than the broker answers is read from later. Many such connections together are refused, so that
// peers with few requests do not wait for them. All loops share the memory. A request takes the lock twice, a
// message to a device never.
//
// Three kinds of peers have parts of their own (NET-6), because a kind with easier admission must not use up the
// memory of the next kind. Strangers have a small part beside all projects. Devices have half of a project's
// memory, and half of all projects' memory. Senders and administrators have the rest, and what devices leave.
// Rests on BrokerLimits and StrangerBook.

import MartletBase
import MartletRows
import MartletThreads
import Synchronization

extension Payer {
    fileprivate var project: ProjectNumber? {
        switch self {
        case .stranger: nil
        case .device(let project), .sender(let project): project
        }
    }

    fileprivate var isDevice: Bool { if case .device = self { true } else { false } }
}

/// The charges of a whole broker.
final class RequestMemory: Sendable {
    /// Bytes of a project, or of all projects.
    private struct Held {
        var total = 0
        /// The part of devices.
        var devices = 0

        /// Whether bytes fit below a bound. Devices have half of the memory.
        func hasRoom(for charge: RequestCharge, max: Int) -> Bool {
            total + charge.byteCount <= max
                && (!charge.payer.isDevice || devices + charge.byteCount <= max / 2)
        }

        mutating func add(_ byteCount: Int, of payer: Payer) {
            total += byteCount
            if payer.isDevice { devices += byteCount }
            invariant(
                devices >= 0 && devices <= total, "The memory of requests is given back once.")
        }
    }

    private struct State {
        var projects: [ProjectNumber: Held] = [:]
        var all = Held()
        private(set) var perProjectMax = 0
        private(set) var totalMax = 0

        init(_ limits: BrokerLimits) { bound(limits) }

        mutating func bound(_ limits: BrokerLimits) {
            perProjectMax = limits.requestMegabytesPerProjectMax.megabytes
            totalMax = limits.requestMegabytesMax.megabytes
        }
    }

    private let strangers: StrangerBook
    private let state: Mutex<State>

    init(_ limits: BrokerLimits, strangers: StrangerBook) {
        state = Mutex(State(limits))
        self.strangers = strangers
    }

    /// OPS-11: changes the bounds. Requests held above a lower bound stay.
    func change(_ limits: BrokerLimits) { state.withLock { $0.bound(limits) } }

    /// Retry delay of a refusal, in milliseconds. The broker answers all held requests in less time.
    private static let retryMilliseconds: UInt32 = 200

    /// Charges a peer.
    /// - Returns: the address whose connections must end for the bytes of a stranger; mostly nil.
    func take(_ charge: RequestCharge) throws(MartletError) -> PeerAddress? {
        enum Answer {
            case taken
            case projectIsFull
            case isFull
        }
        invariant(charge.byteCount >= 0, "A request takes no less than no memory.")
        if case .stranger(let address) = charge.payer {
            switch strangers.take(charge.byteCount, of: address) {
            case .taken: return nil
            case .takenFrom(let other): return other
            case .refused: throw Self.strangersAreFull
            }
        }
        let answer: Answer = state.withLock { state in
            guard state.all.hasRoom(for: charge, max: state.totalMax) else { return .isFull }
            if let project = charge.payer.project {
                var held = state.projects[project] ?? Held()
                guard held.hasRoom(for: charge, max: state.perProjectMax) else {
                    return .projectIsFull
                }
                held.add(charge.byteCount, of: charge.payer)
                state.projects[project] = held
            }
            state.all.add(charge.byteCount, of: charge.payer)
            return .taken
        }
        switch answer {
        case .taken: return nil
        case .projectIsFull:
            throw MartletError(
                .resourceExhausted,
                """
                What the project's connections have asked and was not answered yet has \
                \(state.withLock { $0.perProjectMax } >> 20) megabytes (request-megabytes-per-project); ask again later.
                """, retryDelayMilliseconds: Self.retryMilliseconds)
        case .isFull:
            throw MartletError(
                .unavailable,
                """
                The broker has been asked more than it can hold (request-megabytes); ask again later.
                """, retryDelayMilliseconds: Self.retryMilliseconds)
        }
    }

    private static let strangersAreFull = MartletError(
        .unavailable,
        """
        Connections without a credential have sent more than the broker keeps of them \
        (stranger-megabytes); connect again.
        """, retryDelayMilliseconds: 1000)

    func giveBack(_ charge: RequestCharge) {
        guard charge.byteCount > 0 else { return }
        if case .stranger(let address) = charge.payer {
            return strangers.giveBack(charge.byteCount, of: address)
        }
        state.withLock { state in
            state.all.add(-charge.byteCount, of: charge.payer)
            guard let project = charge.payer.project, var held = state.projects[project] else {
                return
            }
            held.add(-charge.byteCount, of: charge.payer)
            state.projects[project] = held.total > 0 ? held : nil
        }
    }

    var total: Int { state.withLock { $0.all.total } + strangers.bytes }

    /// Charged bytes of each project; projects without charges are left out.
    var projects: [ProjectNumber: Int] { state.withLock { $0.projects.mapValues(\.total) } }
}
