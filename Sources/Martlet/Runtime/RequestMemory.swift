// SPDX-License-Identifier: Apache-2.0
//
// Bytes of unanswered requests, and of frames that have not arrived whole (OPS-5, NET-3). A connection that
// asks faster than the broker answers is read from later. Many such connections together are refused, so that
// peers with few requests do not wait for them. All loops share the memory. A request takes the lock twice, a
// message to a device never. Rests on MailboxLimits.

import MartletBase
import Synchronization

/// The bytes of a request, and the project charged until the answer.
struct RequestCharge: Sendable {
    /// nil: a peer without a project.
    var project: ProjectNumber?
    var byteCount: Int

    static let nothing = RequestCharge(project: nil, byteCount: 0)
}

/// The charges of a whole broker.
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

    /// Retry delay of a refusal, in milliseconds. The broker answers all held requests in less time.
    private static let retryMilliseconds: UInt32 = 200

    func take(_ charge: RequestCharge) throws(MartletError) {
        enum Answer {
            case taken
            case projectIsFull
            case isFull
        }
        invariant(charge.byteCount >= 0, "A request takes no less than no memory.")
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
            invariant(state.total >= 0, "The memory of requests is given back once.")
            guard let project = charge.project else { return }
            let left = state.projects[project, default: 0] - charge.byteCount
            invariant(left >= 0, "The memory of a project's requests is given back once.")
            state.projects[project] = left > 0 ? left : nil
        }
    }

    var total: Int { state.withLock { $0.total } }

    /// Charged bytes of each project; projects without charges are left out.
    var projects: [ProjectNumber: Int] { state.withLock { $0.projects } }
}

extension Int {
    /// A limit in megabytes, as bytes. 0 stands for no limit.
    var megabytes: Int { self == 0 ? .max : self << 20 }
}
