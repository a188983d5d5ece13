// SPDX-License-Identifier: Apache-2.0
//
// Options of a device: connecting, heartbeat, buffering and acknowledging. The bounds of the device's queues are
// here.

import MartletBase
public import NIOCore
import NIOPosix

/// Options of a device: connecting, heartbeat, buffering and acknowledging.
public struct DeviceOptions: Sendable {
    /// DEV-1: pauses between attempts to connect.
    public var backoff = Backoff()
    /// NET-7: further addresses of the broker. The device tries all addresses in turn in each attempt to connect.
    public var fallbacks: [BrokerAddress] = []
    /// DEV-5: bounds on the silence before the device sends a PING.
    public var heartbeat = HeartbeatOptions()
    /// Messages that may wait for the application. At this bound the device stops reading the socket. The messages
    /// of the last read, at most 64 KiB, can exceed the bound.
    public var bufferedMessagesMax = 100
    /// DEV-3: messages taken by the application that share an acknowledgement. Receiving an acknowledgement costs a
    /// broker two thirds of a delivery; an acknowledgement for ten messages costs a tenth of that per message. A
    /// lost connection makes no difference to the application, because HELLO tells the broker about the taken
    /// messages.
    public var acknowledgedTogetherMax = 10
    /// DEV-3: longest delay of an acknowledgement after the application has taken a message. Zero acknowledges
    /// every message at once. A phone's radio is still awake after a second, so the delayed acknowledgement does
    /// not wake the radio. A request or the closing of the device sends a waiting acknowledgement earlier.
    public var acknowledgementDelay: Duration = .seconds(1)
    /// DEV-2: attempts of `subscribe` and `unsubscribe` before the call throws the error.
    public var attemptsMax = 5
    /// REG-7: what the device presents when it registers.
    public var registration = DeviceRegistration.open
    /// Event loops of the devices. The default is the group shared by the whole process.
    public var eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    /// Encrypts the connections; nil: the connections are plain.
    package var encryption: Encryption?

    /// The default options.
    public init() {}
}

/// REG-7: what a new device presents, as its project wants.
public enum DeviceRegistration: Sendable {
    /// Nothing: the project is open.
    case open
    /// A registration key, which lies in the app.
    case key(String)
    /// A ticket of the app's own server. The device calls the closure before each registration, because a ticket is
    /// good once.
    case ticket(@Sendable () async throws -> String)

    func credential() async throws -> RegistrationCredential {
        switch self {
        case .open: .none
        case .key(let key): .key(key)
        case .ticket(let fetch): .ticket(try await fetch())
        }
    }
}

/// DEV-5: bounds of the adaptive heartbeat. The heartbeat interval grows while connections survive silences of its
/// length, and shrinks when a connection is found dead. If the broker allows only a shorter silence, the interval
/// is shorter.
public struct HeartbeatOptions: Sendable, Hashable {
    /// Shortest interval that the heartbeat shrinks to.
    public var shortest: Duration = .seconds(30)
    /// Longest interval that the heartbeat grows to. Push services ask networks to keep a silent connection for 30
    /// minutes.
    public var longest: Duration = .seconds(28 * 60)
    /// First interval, before the heartbeat has learned from a connection.
    public var first: Duration = .seconds(4 * 60)
    /// Longest time to wait for an answer to a PING. The connection counts as dead after that.
    public var answerTimeout: Duration = .seconds(30)

    /// The default bounds: from 30 seconds to 28 minutes, 4 minutes at first.
    public init() {}
}
