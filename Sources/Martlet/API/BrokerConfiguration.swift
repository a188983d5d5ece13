// SPDX-License-Identifier: Apache-2.0
//
// The settings of a broker. Each setting but the data folder has a default. Rests on Limits.

public import Logging
public import MartletBase

/// The settings of a broker.
public struct BrokerConfiguration: Sendable {
    /// The address on which devices and senders connect.
    public struct Address: Sendable, Hashable {
        /// An IPv4 or IPv6 address of this machine. `0.0.0.0` stands for all IPv4 addresses, `::` for all
        /// IPv6 addresses.
        public var host: String
        /// TCP port. 0: the system chooses a port.
        public var port: UInt16

        /// Makes an address. The default host admits connections of this machine only.
        public init(host: String = "127.0.0.1", port: UInt16 = UInt16(Limits.defaultPort)) {
            self.host = host
            self.port = port
        }
    }

    /// The data folder, for one broker at a time. The broker creates a missing folder, but no parent folder.
    public var folder: String
    /// nil: no connections. The broker serves the calls of this process alone.
    public var address: Address?
    /// Loops, each with a thread of its own. 0: a loop per core.
    public var loopCount = 0
    /// Connections per loop. The limit of open descriptors may lower the number.
    public var connectionsPerLoopMax = 65_536
    /// NET-2: seconds of silence after which an open connection is closed.
    public var idleSeconds = Limits.idleSecondsDefault
    /// NET-3: seconds within which a new connection must send HELLO. A connection of several apps may be
    /// without an app for as long.
    public var handshakeSeconds = Limits.handshakeSecondsDefault
    /// NET-5: milliseconds over which draining clients are asked to spread their return.
    public var reconnectDelayMilliseconds: UInt32 = 5000
    /// Limits on the mailbox of an instance, and on the requests, fanouts and memory of a project.
    public var limits = MailboxLimits()
    /// FAN-7: ceiling on deliveries of fanouts, per second over all projects. 0: no ceiling. Projects share the
    /// ceiling in the same turns as all capacity. Messages read from mailboxes do not count, and neither do
    /// messages to single instances.
    public var deliveriesPerSecond = 0
    /// Bytes of address space with which the store begins. A full map is doubled.
    public var mapBytes = 1 << 30
    /// Logger of the broker; the initial logger has the label `martlet`.
    public var logger: Logger
    /// The wall clock. nil: the clock of the system. Tests set another clock.
    public var clock: (@Sendable () -> Instant)?

    /// Makes the settings of a broker; every other setting has its default.
    /// - Parameter address: nil: no connections.
    public init(folder: String, address: Address? = nil) {
        self.folder = folder
        self.address = address
        logger = Logger(label: "martlet")
    }
}
