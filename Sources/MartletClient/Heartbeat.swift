// SPDX-License-Identifier: Apache-2.0
//
// NET-2, DEV-5: when to ping and when to give a connection up. Pure: it is told what happens and
// when, and asked what to do; times are durations since any instant that does not change.
//
// Three things make a ping due:
//
//   nothing came for an interval      the broker, or the way to it, may be gone
//   nothing left for almost as long   the broker closes a connection that it hears nothing from
//     as the broker bears
//   a request is unanswered           whoever waits should not wait for the interval's end
//
// Any frame that comes answers a ping and begins the interval anew, so a busy connection is never
// pinged. How long an interval is, `HeartbeatPace` learns from silences that a connection survived
// and from those that it did not.

package struct Heartbeat: Sendable {
    package enum Decision: Sendable, Hashable {
        case nothing
        case ping
        /// Nothing has come since the last ping.
        case giveUp
    }

    private struct Ping {
        var time: Duration
        /// How long neither side had said anything.
        var silence: Duration
    }

    /// What is learned outlives the connection.
    package private(set) var pace: HeartbeatPace
    private let answerTimeout: Duration
    /// The longest time without a frame to the broker.
    private let sendingInterval: Duration
    private var lastSent: Duration
    private var lastReceived: Duration
    /// When the first request since the last frame that came was sent.
    private var asked: Duration?
    private var unanswered: Ping?

    /// - Parameters:
    ///   - idleSeconds: how long the broker bears silence.
    ///   - now: when the connection was opened.
    package init(
        pace: HeartbeatPace, answerTimeout: Duration, idleSeconds: UInt32, at now: Duration
    ) {
        self.pace = pace
        self.answerTimeout = answerTimeout
        // Two minutes for a timer that is late and a network that is slow: 28 of 30 minutes.
        let idle = Duration.seconds(Int64(idleSeconds))
        sendingInterval = max(.milliseconds(10), idle - min(.seconds(120), idle / 2))
        lastSent = now
        lastReceived = now
    }

    /// How long nothing comes until a ping is due.
    package var interval: Duration { min(pace.interval, sendingInterval) }

    /// A frame left.
    /// - Parameter isRequest: whether the broker answers it.
    package mutating func sent(at now: Duration, isRequest: Bool) {
        lastSent = now
        if isRequest && asked == nil { asked = now }
    }

    /// A frame came.
    package mutating func received(at now: Duration) {
        if let ping = unanswered {
            pace.survived(ping.silence)
            unanswered = nil
        }
        asked = nil
        lastReceived = now
    }

    /// When to ask next; earlier where there is no such frame as was expected.
    package var due: Duration {
        if let unanswered { return unanswered.time + answerTimeout }
        let due = min(lastReceived + interval, lastSent + sendingInterval)
        guard let asked else { return due }
        return min(due, asked + answerTimeout)
    }

    /// This side reads again. Until now silence proved nothing: what came lies in the socket.
    package mutating func resumed(at now: Duration) {
        unanswered = nil
        asked = nil
        lastReceived = now
    }

    /// What to do now.
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
