// SPDX-License-Identifier: Apache-2.0
//
// What peers have sent and the broker has not dealt with: requests on their way to the committer and
// to answers, and frames that have not arrived whole (OPS-5, NET-3). One connection that asks faster
// than it can be answered is read from later; many that do so together are refused, so that nobody who
// asks little waits for them. Shared by all loops; its lock is taken twice for a request and never for
// a message to a device. Rests on MailboxLimits.

import MartletBase
import Synchronization

/// Bytes of one request, and whose they are while it is dealt with.
struct RequestCharge: Sendable {
    /// nil: nobody's in particular.
    var project: ProjectNumber?
    var byteCount: Int

    static let nothing = RequestCharge(project: nil, byteCount: 0)
}

/// Bytes of all that wait. One value per broker.
final class RequestMemory: Sendable {
    private struct State {
        var projects: [ProjectNumber: Int] = [:]
        var total = 0
    }

    private let perProjectMax: Int
    private let totalMax: Int
    private let state = Mutex(State())

    init(_ limits: MailboxLimits) {
        perProjectMax = limits.requestMegabytesPerProjectMax.megabytes
        totalMax = limits.requestMegabytesMax.megabytes
    }

    /// When to ask again: the broker answers what it holds in less.
    private static let retryMilliseconds: UInt32 = 200

    func take(_ charge: RequestCharge) throws(MartletError) {
        enum Answer {
            case taken
            case projectIsFull
            case isFull
        }
        let answer: Answer = state.withLock { state in
            guard state.total + charge.byteCount <= totalMax else { return .isFull }
            if let project = charge.project {
                let held = state.projects[project, default: 0] + charge.byteCount
                guard held <= perProjectMax else { return .projectIsFull }
                state.projects[project] = held
            }
            state.total += charge.byteCount
            return .taken
        }
        switch answer {
        case .taken: return
        case .projectIsFull:
            throw MartletError(
                .resourceExhausted,
                """
                What the project's connections have asked and was not answered yet has \
                \(perProjectMax >> 20) megabytes (request-megabytes-per-project); ask again later.
                """, retryDelayMilliseconds: Self.retryMilliseconds)
        case .isFull:
            throw MartletError(
                .unavailable,
                """
                The broker has been asked more than it can hold (request-megabytes); ask again later.
                """, retryDelayMilliseconds: Self.retryMilliseconds)
        }
    }

    func giveBack(_ charge: RequestCharge) {
        guard charge.byteCount > 0 else { return }
        state.withLock { state in
            state.total -= charge.byteCount
            guard let project = charge.project else { return }
            let left = state.projects[project, default: 0] - charge.byteCount
            state.projects[project] = left > 0 ? left : nil
        }
    }

    var total: Int { state.withLock { $0.total } }

    /// By project, those that have any.
    var projects: [ProjectNumber: Int] { state.withLock { $0.projects } }
}

extension Int {
    /// As a limit of bytes; 0 is none.
    var megabytes: Int { self == 0 ? .max : self << 20 }
}
