// SPDX-License-Identifier: Apache-2.0
//
// NET-2: when to ping and when to give a connection up. Asked once an interval; any frame in either
// direction counts as a sign of life, so a busy connection is never pinged. Pure.

package struct Heartbeat: Sendable {
    package enum Decision: Sendable, Hashable {
        /// Both sides have been heard.
        case nothing
        /// This side or the other was silent for an interval.
        case ping
        /// The other side has not answered a ping for a whole interval.
        case giveUp
    }

    private var hasSent = false
    private var hasReceived = false
    private var awaitsAnswer = false

    package init() {}

    package mutating func sent() { hasSent = true }

    package mutating func received() {
        hasReceived = true
        awaitsAnswer = false
    }

    /// One interval has passed. While this side does not read, silence proves nothing.
    package mutating func tick(isReading: Bool) -> Decision {
        defer {
            hasSent = false
            hasReceived = false
        }
        if hasSent && hasReceived { return .nothing }
        if awaitsAnswer && isReading { return .giveUp }
        awaitsAnswer = isReading && !hasReceived
        return .ping
    }

    /// How often to ask: as configured, but at least twice in what the broker bears.
    package static func interval(configured: Duration, idleSeconds: UInt32) -> Duration {
        max(.milliseconds(10), min(configured, .seconds(Int64(idleSeconds)) / 2))
    }
}
