// SPDX-License-Identifier: Apache-2.0
//
// How a broker is set up. Everything has a default but the data folder. Rests on Limits.

public import Logging
public import MartletBase

/// The settings of one broker.
public struct BrokerConfiguration: Sendable {
    /// Where devices and senders connect.
    public struct Address: Sendable, Hashable {
        /// An IPv4 or IPv6 address of this machine; `0.0.0.0` and `::` are all of them.
        public var host: String
        /// 0 lets the system choose.
        public var port: UInt16

        public init(host: String = "127.0.0.1", port: UInt16 = UInt16(Limits.defaultPort)) {
            self.host = host
            self.port = port
        }
    }

    /// The data folder; made when it is missing, its parent not. One broker at a time.
    public var folder: String
    /// nil: no connections, the broker is used in this process alone.
    public var address: Address?
    /// Threads that serve connections; 0: one per core.
    public var loopCount = 0
    /// Connections per loop; the limit of open descriptors bounds it too.
    public var connectionsPerLoopMax = 65_536
    /// NET-2.
    public var idleSeconds = Limits.idleSecondsDefault
    /// NET-3.
    public var handshakeSeconds = Limits.handshakeSecondsDefault
    /// NET-5: over how long clients are asked to spread their return.
    public var reconnectDelayMilliseconds: UInt32 = 5000
    /// What is stored for, and sent to, one instance at most, and what one project may ask for.
    public var limits = MailboxLimits()
    /// FAN-7: deliveries of messages to many instances per second, over all projects, which share them
    /// as they share everything; 0: as many as can be. What is read from mailboxes does not count, and
    /// neither do messages to single instances.
    public var deliveriesPerSecond = 0
    /// Address space that the store begins with. It doubles when it is full.
    public var mapBytes = 1 << 30
    public var logger: Logger
    /// The wall clock. Given another one in tests.
    public var clock: (@Sendable () -> Instant)?

    public init(folder: String, address: Address? = nil) {
        self.folder = folder
        self.address = address
        logger = Logger(label: "martlet")
    }
}
