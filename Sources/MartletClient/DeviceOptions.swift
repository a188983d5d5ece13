// SPDX-License-Identifier: Apache-2.0
//
// How a device connects, buffers and acknowledges. Every queue of the device has its bound here.

public import NIOCore
import NIOPosix

public struct DeviceOptions: Sendable {
    /// DEV-1: the pauses between attempts to connect.
    public var backoff = Backoff()
    /// NET-2: how long a connection may be silent before it is pinged; at most half of what the
    /// broker bears. The networks' NAT timeout is 30 minutes where they keep to what is asked of them.
    public var heartbeat: Duration = .seconds(840)
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
