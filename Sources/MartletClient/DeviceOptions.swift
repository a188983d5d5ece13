// SPDX-License-Identifier: Apache-2.0
//
// How a device connects, keeps its connection, buffers and acknowledges. Every queue of the device
// has its bound here.

public import NIOCore
import NIOPosix

/// How a device connects, buffers and acknowledges.
public struct DeviceOptions: Sendable {
    /// DEV-1: the pauses between attempts to connect.
    public var backoff = Backoff()
    /// DEV-5: how long a connection may be silent before it is pinged.
    public var heartbeat = HeartbeatOptions()
    /// Messages that wait for the application; past it the socket is not read. What one read
    /// brings, at most 64 KiB, comes on top of it.
    public var bufferedMessagesMax = 100
    /// DEV-3: taken messages that one acknowledgement waits for. Receiving one costs a broker two
    /// thirds of a delivery, and one for ten messages a tenth of that. A connection that is lost makes
    /// no difference to the application: HELLO tells what was taken.
    public var acknowledgedTogetherMax = 10
    /// DEV-3: how long the first of them waits at most; zero acknowledges every message at once. In a
    /// second a phone's radio has not gone back to sleep, so waiting wakes nothing. What waits goes
    /// earlier with a request, and when the device is closed.
    public var acknowledgementDelay: Duration = .seconds(1)
    /// DEV-2: attempts of `subscribe` and `unsubscribe` before the error is reported.
    public var attemptsMax = 5
    public var eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton

    public init() {}
}

/// DEV-5: the bounds of a heartbeat that adapts itself: it grows while connections survive silences
/// of its length, and shrinks when one is found dead. Less than it where the broker bears less
/// silence.
public struct HeartbeatOptions: Sendable, Hashable {
    /// What a heartbeat shrinks to at most.
    public var shortest: Duration = .seconds(30)
    /// What it grows to at most. Push services ask networks to keep a connection for 30 minutes.
    public var longest: Duration = .seconds(28 * 60)
    /// What it is until something is learned.
    public var first: Duration = .seconds(4 * 60)
    /// How long an answer may take; a connection without one by then is dead.
    public var answerTimeout: Duration = .seconds(30)

    public init() {}
}
