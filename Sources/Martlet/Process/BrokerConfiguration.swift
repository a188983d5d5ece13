// SPDX-License-Identifier: Apache-2.0
//
// The settings of a broker. Each setting but the data folder has a default. Rests on Limits.

public import CoreMetrics
public import Logging
public import MartletBase
package import MartletCluster
public import MartletCrypto
package import MartletStore
import MartletTransport

/// The settings of a broker.
public struct BrokerConfiguration: Sendable {
    /// The address on which devices and senders connect.
    public struct Address: Sendable, Hashable {
        /// An IPv4 or IPv6 address of this machine, or its name. `0.0.0.0` stands for all IPv4 addresses, `::` for
        /// all IPv6 addresses.
        public var host: String
        /// TCP port. 0: the system chooses a port.
        public var port: UInt16

        /// Makes an address. The default host admits connections of this machine only.
        public init(host: String = "127.0.0.1", port: UInt16 = UInt16(Limits.defaultPort)) {
            self.host = host
            self.port = port
        }

        /// The address with its host in numbers. Waits for the resolver where the host is a name.
        /// - Throws: INVALID_ARGUMENT for a name without an address.
        package func inNumbers() throws(MartletError) -> Address {
            do throws(HostAddresses.Failure) {
                guard let best = try HostAddresses.find(host).first else { return self }
                return Address(host: best.description, port: port)
            } catch {
                throw MartletError(
                    .invalidArgument,
                    "'\(host)' is neither an IP address nor a known name of this machine. \(error)",
                    field: "listen")
            }
        }

        /// Whether only this machine reaches the address.
        public var isLoopback: Bool {
            host == "localhost" || PeerAddress(host)?.isLoopback ?? false
        }
    }

    /// An address on which the broker listens, and the form of the bytes there.
    public struct Listener: Sendable, Hashable {
        /// The protection of the bytes.
        public enum Security: String, Sendable, Hashable {
            /// Plain text, which every machine on the way can read.
            case plain
            /// TLS. The broker refuses to open without a certificate for the device port.
            case tls
        }

        /// An address of this machine.
        public var address: Address
        /// The protection of the bytes; nil: TLS if the broker has a certificate (`BrokerConfiguration.tls`), else
        /// plain text. Plain text on an address that other machines reach must be allowed
        /// (`BrokerConfiguration.allowsPlainElsewhere`).
        public var security: Security?
        /// Whether proxies connect here, and name their clients by the PROXY protocol, version 1 or 2. Other
        /// peers are refused (see `BrokerConfiguration.proxies`).
        public var isProxied: Bool

        /// Makes a listener; the default is the loopback address.
        public init(
            _ address: Address = Address(), security: Security? = nil, isProxied: Bool = false
        ) {
            self.address = address
            self.security = security
            self.isProxied = isProxied
        }
    }

    /// OPS-8: the interfaces of the kernel that can serve connections, with the same behaviour.
    public enum TransportKind: String, Sendable, Hashable, CaseIterable {
        /// The faster interface. Some containers and kernels deny io_uring.
        case ioUring = "io_uring"
        /// The interface that every Linux has. Each connection takes a descriptor of the process.
        case epoll
    }

    /// The data folder, for one broker at a time. The broker creates a missing folder, but no parent folder.
    public var folder: String
    /// NET-7: the addresses for connections. Empty: the broker serves the calls of this process alone.
    public var listeners: [Listener]
    /// The address of the first listener; nil without a listener. Setting nil removes all listeners.
    public var address: Address? {
        get { listeners.first?.address }
        set {
            guard let newValue else { return listeners = [] }
            if listeners.isEmpty { listeners = [Listener(newValue)] }
            listeners[0].address = newValue
        }
    }
    /// OPS-6: allows plain text on addresses that other machines reach. Every machine on the way can then read
    /// messages and credentials. Administrators are refused there in any case.
    public var allowsPlainElsewhere = false
    /// The proxies whose word counts on a client's address: addresses, or prefixes such as `10.0.0.0/8`.
    public var proxies: [AddressPrefix] = []
    /// OPS-6: certificate and key of the listeners that speak TLS 1.3.
    public var tls: TLSCredentials?
    /// OPS-8: the interface of the kernel that serves connections. nil: io_uring, or epoll where the kernel refuses
    /// io_uring; the log says so. With a value the broker opens with this interface alone.
    public var transport: TransportKind?
    /// Loops, each with a thread of its own. 0: a loop for each processor that the process may keep busy, by its
    /// affinity and its CPU quota.
    public var loopCount = 0
    /// Connections per loop. The limit of open descriptors may lower the number: with io_uring the limit holds for
    /// each loop, with epoll for all loops together.
    public var connectionsPerLoopMax = 65_536
    /// NET-2: seconds of silence after which an open connection is closed.
    public var idleSeconds = Limits.idleSecondsDefault
    /// NET-3: seconds within which a new connection must send HELLO. A connection of several apps may be
    /// without an app for as long.
    public var handshakeSeconds = Limits.handshakeSecondsDefault
    /// NET-6: seconds in which a frame must arrive, from its first byte to its last.
    public var frameSeconds = Limits.frameSecondsDefault
    /// NET-5: milliseconds over which draining clients are asked to spread their return.
    public var reconnectDelayMilliseconds: UInt32 = 5000
    /// Limits on the mailbox of an instance, and on the requests, fanouts and memory of a project.
    public var limits = BrokerLimits()
    /// FAN-7: ceiling on deliveries of fanouts, per second over all projects. 0: no ceiling. Projects share the
    /// ceiling in the same turns as all capacity. Messages read from mailboxes do not count, and neither do
    /// messages to single instances.
    public var deliveriesPerSecond = 0
    /// Bytes of address space with which the store begins. A full map is doubled.
    public var mapBytes = 1 << 30
    /// Logger of the broker; the initial logger has the label `martlet`.
    public var logger: Logger
    /// OPS-10: a second receiver of the broker's metrics, beside `Broker.metricsText`; nil: none.
    public var metrics: (any MetricsFactory)?
    /// Called during `Broker.open` with each further percent of a migration of the data folder, and at its beginning and
    /// end; nil: nobody asks.
    public var migrating: (@Sendable (MigrationProgress) -> Void)?
    /// OPS-3: the steps by which a data folder of an older format is migrated. Tests give one of their own.
    package var migrationSteps = MigrationStep.all
    /// OPS-4: called before a copied data folder is read and compared, with the length of its data file in bytes.
    package var checkingCopy: (@Sendable (_ byteCount: Int) -> Void)?
    /// Whether the ports are only kept until `Broker.serve` is called, for a process that has other ports to open: a start
    /// that fails must not welcome devices.
    package var servesLater = false
    /// OPS-7: the broker's place in a cluster; nil: the broker is alone.
    package var cluster: ClusterConfiguration?
    /// OPS-7: the program that writes a backup of the folder to standard output, and its arguments; empty: the broker
    /// hands out no backups to administrators on connections.
    package var backupCommand: [String] = []
    /// The wall clock. nil: the clock of the system. Tests set another clock.
    public var clock: (@Sendable () -> Instant)?

    /// Makes the settings of a broker; every other setting has its default.
    /// - Parameter address: nil: no connections.
    public init(folder: String, address: Address? = nil) {
        self.folder = folder
        listeners = address.map { [Listener($0)] } ?? []
        logger = Logger(label: "martlet")
    }

    /// Whether an address is one of the proxies.
    package func isProxy(_ address: PeerAddress) -> Bool {
        proxies.contains { $0.contains(address) }
    }

    /// Whether this process reaches a listener at 127.0.0.1 in plain text, without a proxy's header.
    package func isLocal(_ listener: Listener) -> Bool {
        security(of: listener) == .plain && !listener.isProxied
            && ["127.0.0.1", "localhost", "0.0.0.0"].contains(listener.address.host)
    }

    /// The protection of a listener's bytes.
    package func security(of listener: Listener) -> Listener.Security {
        listener.security ?? (tls == nil ? .plain : .tls)
    }

    /// - Throws: `INVALID_ARGUMENT` for a listener that the broker cannot serve, or must not.
    func check() throws(MartletError) {
        for listener in listeners {
            let host = listener.address.host
            let security = security(of: listener)
            guard security == .plain || tls != nil else {
                throw MartletError(
                    .invalidArgument,
                    "\(host) cannot speak TLS without a certificate; give one with --tls-certificate.",
                    field: "listen")
            }
            guard security == .plain || !listener.isProxied else {
                throw MartletError(
                    .invalidArgument,
                    "\(host) cannot speak TLS behind proxies that name their clients: 'proxy' goes with "
                        + "'plain' alone, and with a certificate 'plain' must be written "
                        + "(address:port,plain,proxy). Let the proxy do TLS.", field: "listen")
            }
            let isLocal = try listener.address.inNumbers().isLoopback
            guard security == .tls || isLocal || allowsPlainElsewhere else {
                throw MartletError(
                    .invalidArgument,
                    "\(host) is reached from other machines, and without TLS messages and credentials "
                        + "go there in plain text. Give a certificate with "
                        + "--tls-certificate, listen on 127.0.0.1, or allow plain text with "
                        + "--plain-elsewhere, in a trusted network or behind a proxy that does TLS.",
                    field: "listen")
            }
            guard !listener.isProxied || !proxies.isEmpty else {
                throw MartletError(
                    .invalidArgument,
                    "\(host) takes the word of proxies, and none is named; name them with --proxy.",
                    field: "proxy")
            }
        }
    }
}
