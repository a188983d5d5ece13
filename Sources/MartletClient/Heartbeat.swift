// SPDX-License-Identifier: Apache-2.0
//
// Decides when to ping and when to give a connection up (NET-2, DEV-5). Pure: the caller passes events and times. Times are
// durations since any fixed instant.
//
// Three conditions make a PING due:
//
//     no frame came for an interval          the broker, or the path to the broker, may be gone
//     no frame left for almost as long       the broker closes a connection from which no frames come
//       as the broker allows
//     a request is unanswered                its caller should not wait for the end of the interval
//
// Any received frame answers a PING and restarts the interval, so a busy connection is never pinged.
// `HeartbeatPace` learns the length of the interval from silences that a connection survived and from silences that
// a connection did not survive.

package struct Heartbeat: Sendable {
    package enum Decision: Sendable, Hashable {
        case nothing
        case ping
        /// No frame has come since the last PING.
        case giveUp
    }

    private struct Ping {
        var time: Duration
        /// How long both sides had been silent before the PING.
        var silence: Duration
    }

    /// The learned pace, which outlives the connection.
    package private(set) var pace: HeartbeatPace
    private let answerTimeout: Duration
    /// Longest time without a frame to the broker.
    private let sendingInterval: Duration
    private var lastSent: Duration
    private var lastReceived: Duration
    /// Instant of the first request since the last received frame.
    private var asked: Duration?
    private var unanswered: Ping?

    /// - Parameters:
    ///   - idleSeconds: the longest silence that the broker allows, in seconds.
    ///   - now: instant at which the connection opened.
    package init(
        pace: HeartbeatPace, answerTimeout: Duration, idleSeconds: UInt32, at now: Duration
    ) {
        self.pace = pace
        self.answerTimeout = answerTimeout
        // Two minutes allow for a late timer and a slow network: 28 of 30 minutes.
        let idle = Duration.seconds(Int64(idleSeconds))
        sendingInterval = max(.milliseconds(10), idle - min(.seconds(120), idle / 2))
        lastSent = now
        lastReceived = now
    }

    /// Silence of the broker after which a PING is due.
    package var interval: Duration { min(pace.interval, sendingInterval) }

    /// Call when a frame has been sent.
    /// - Parameter isRequest: true if the broker answers the frame.
    package mutating func sent(at now: Duration, isRequest: Bool) {
        lastSent = now
        if isRequest && asked == nil { asked = now }
    }

    /// Call when a frame has been received.
    package mutating func received(at now: Duration) {
        if let ping = unanswered {
            pace.survived(ping.silence)
            unanswered = nil
        }
        asked = nil
        lastReceived = now
    }

    /// Instant at which to call `tick`, if no event comes before.
    package var due: Duration {
        if let unanswered { return unanswered.time + answerTimeout }
        let due = min(lastReceived + interval, lastSent + sendingInterval)
        guard let asked else { return due }
        return min(due, asked + answerTimeout)
    }

    /// Call when this side reads again. Earlier silence proves nothing, because frames may wait in the socket.
    package mutating func resumed(at now: Duration) {
        unanswered = nil
        asked = nil
        lastReceived = now
    }

    /// Decides the action at the instant `now`.
    package mutating func tick(at now: Duration, isReading: Bool) -> Decision {
        guard isReading else {
            resumed(at: now)
            return now >= lastSent + interval ? .ping : .nothing
        }
        guard now >= due else { return .nothing }
        guard unanswered == nil else {
            pace.died(after: interval)
            return .giveUp
        }
        unanswered = Ping(time: now, silence: now - max(lastSent, lastReceived))
        return .ping
    }
}
