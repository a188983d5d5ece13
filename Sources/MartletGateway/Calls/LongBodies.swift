// SPDX-License-Identifier: Apache-2.0
//
// Turns of requests whose bodies take long to read. Swift has a thread for each core, and a few lists of tokens that are read
// at a time would hold them all for milliseconds, in which no short request is answered. So long bodies have half of the
// threads, and the projects that wait there take turns. Rests on
// Processors.

import MartletTransport
import Synchronization

/// Gives the turns.
package final class LongBodies: Sendable {
    /// A body of so many bytes takes less than half a millisecond to read, and needs no turn.
    static let bytesMin = 32 * 1024

    private struct State {
        var freeCount: Int
        /// Requests of each project that wait for a turn, in the order of their coming.
        var waiting: [String: [CheckedContinuation<Void, Never>]] = [:]
        /// The projects that wait, in the order of their turns.
        var order: [String] = []
    }

    private let state: Mutex<State>

    package init(turnCount: Int = max(1, Processors.count() / 2)) {
        state = Mutex(State(freeCount: turnCount))
    }

    /// Reads a body in a turn of a project.
    package func turn<Value>(
        of project: String, _ read: () throws(GatewayError) -> Value
    ) async throws(GatewayError) -> Value {
        await begin(project)
        defer { end() }
        return try read()
    }

    package func begin(_ project: String) async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.freeCount == 0 else {
                    state.freeCount -= 1
                    return true
                }
                if state.waiting[project, default: []].isEmpty { state.order.append(project) }
                state.waiting[project, default: []].append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    /// Hands the turn on to the next project.
    package func end() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.order.isEmpty else {
                state.freeCount += 1
                return nil
            }
            let project = state.order.removeFirst()
            let next = state.waiting[project]?.removeFirst()
            if state.waiting[project]?.isEmpty ?? true {
                state.waiting[project] = nil
            } else {
                state.order.append(project)
            }
            return next
        }
        next?.resume()
    }
}

extension Gateway {
    /// Reads the body of a call, a long one in a turn of the call's project.
    func reading<Request>(
        _ call: GatewayCall, _ read: (GatewayCall) throws(GatewayError) -> Request
    ) async throws(GatewayError) -> Request {
        guard call.body.count >= LongBodies.bytesMin else { return try read(call) }
        return try await longBodies.turn(of: call.caller?.projectID ?? "") {
            () throws(GatewayError) in
            try read(call)
        }
    }
}
