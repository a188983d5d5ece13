// SPDX-License-Identifier: Apache-2.0
//
// Options of commands that run a broker. Rests on the embedding API.

import ArgumentParser
import Logging
import Martlet
import MartletStore

/// A value of --transport.
enum TransportOption: String, ExpressibleByArgument, CaseIterable {
    case auto
    case ioUring = "io_uring"
    case epoll

    /// nil: the broker chooses.
    var kind: BrokerConfiguration.TransportKind? {
        switch self {
        case .auto: nil
        case .ioUring: .ioUring
        case .epoll: .epoll
        }
    }
}

struct ServeOptions: ParsableArguments {
    @OptionGroup var folder: FolderOptions
    @OptionGroup var place: NodeOptions

    @Option(
        help: ArgumentHelp(
            "A file with settings, name = value (default: MARTLET_CONFIG).", valueName: "file"))
    var config: String?

    @Option(
        help: "The address to listen on; 0.0.0.0 means all IPv4 addresses, :: all IPv6 addresses.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on, 0 to 65535; 0 lets the system choose.")
    var port = UInt16(Limits.defaultPort)

    @Option(
        help: ArgumentHelp(
            "Listen here, in place of --host and --port; may be given again. 'proxy': proxies connect "
                + "here and name their clients (PROXY protocol).",
            valueName: "address:port[,tls|plain][,proxy]"))
    var listen: [String] = []

    @Flag(
        inversion: .prefixedNo,
        help:
            "Serve plain text to other machines too: in a trusted network, or behind a proxy that does TLS."
    )
    var plainElsewhere = false

    @Option(
        help: ArgumentHelp(
            "A proxy whose word counts on a client's address; may be given again.",
            valueName: "address[/bits]"))
    var proxy: [String] = []

    @Option(
        help: ArgumentHelp(
            "A PEM file with the port's certificate and those that vouch for it: the port speaks "
                + "TLS 1.3. SIGHUP reads it again.", valueName: "file"))
    var tlsCertificate: String?

    @Option(
        help: ArgumentHelp(
            "A PEM file with the certificate's key (default: the certificate's file).",
            valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "A PEM file with authorities: each client must present a certificate of theirs.",
            valueName: "file"))
    var tlsClientCa: String?

    @Option(
        help: ArgumentHelp(
            "A file with lines of a project and the subject of a certificate (CN=till-7,O=Shop): a client "
                + "with the certificate is a sender of the project. SIGHUP reads it again.",
            valueName: "file"))
    var tlsClientSenders: String?

    @Option(
        help:
            "How connections are served: io_uring, epoll, or auto: io_uring where the kernel allows it, else epoll."
    )
    var transport = TransportOption.auto

    @Flag(
        name: .customLong("require-io-uring"), inversion: .prefixedNo,
        help: "Refuse to start on epoll where the kernel denies io_uring.")
    var requireIOUring = false

    @Option(
        help: "Threads that serve connections, 0 to 256; 0: one for each processor of this process."
    )
    var loops = 0

    @Option(help: "Connections that each loop serves at most, 1 to 1048576.")
    var connectionsPerLoop = 65_536

    @Option(help: "Close a connection that was silent for so many seconds, 1 or more.")
    var idleSeconds = Limits.idleSecondsDefault

    @Option(help: "Close a connection that has not said hello after so many seconds, 1 or more.")
    var handshakeSeconds = Limits.handshakeSecondsDefault

    @Option(
        help: "Close a connection whose frame has not come whole after so many seconds, 1 or more.")
    var frameSeconds = Limits.frameSecondsDefault

    @Option(
        help: ArgumentHelp(
            "Set a limit, for all projects without one of their own; 0 turns most limits off. May be given again. Names: "
                + LimitSetting.list + ".", valueName: "name=value"))
    var limit: [String] = []

    @Option(
        help:
            "Deliveries of messages to many instances per second, over all projects, 0 to \(Limits.deliveriesPerSecondMax); 0: any number."
    )
    var deliveriesPerSecond = 0

    @Option(help: "What is logged: trace, debug, info, notice, warning, error or critical.")
    var logLevel = "notice"

    @Option(
        help: ArgumentHelp(
            "Serve the broker's metrics here, for Prometheus: http://address:port/metrics.",
            valueName: "address:port"))
    var metrics: String?

    @Option(help: "The form of the log: text or json, an object on each line.")
    var logFormat = LogFormat.text

    mutating func validate() throws {
        guard tlsCertificate != nil || (tlsKey == nil && tlsClientCa == nil) else {
            throw ValidationError("--tls-key and --tls-client-ca go with --tls-certificate.")
        }
        guard tlsClientCa != nil || tlsClientSenders == nil else {
            throw ValidationError("--tls-client-senders goes with --tls-client-ca.")
        }
        guard (0...256).contains(loops) else {
            throw ValidationError("--loops takes a number from 0 to 256.")
        }
        guard (1...1_048_576).contains(connectionsPerLoop) else {
            throw ValidationError("--connections-per-loop takes a number from 1 to 1048576.")
        }
        guard idleSeconds > 0, handshakeSeconds > 0, frameSeconds > 0 else {
            throw ValidationError(
                "--idle-seconds, --handshake-seconds and --frame-seconds take at least 1.")
        }
        for text in listen where ListenSetting.listener(text) == nil {
            throw ValidationError(
                "--listen takes address:port[,tls|plain][,proxy], such as 0.0.0.0:5228 or "
                    + "[::]:443,plain,proxy, not '\(text)'.")
        }
        // The sockets of the loops share a port, so the kernel would not refuse the second listener.
        let places = listen.compactMap { ListenSetting.listener($0)?.address }
        for (index, place) in places.enumerated()
        where place.port != 0 && places[..<index].contains(place) {
            throw ValidationError("--listen has '\(listen[index])' and the same place before.")
        }
        for text in proxy where AddressPrefix(text) == nil {
            throw ValidationError(
                "--proxy takes an address or a prefix, such as 192.0.2.7 or 10.0.0.0/8, not "
                    + "'\(text)'.")
        }
        guard (0...Limits.deliveriesPerSecondMax).contains(deliveriesPerSecond) else {
            throw ValidationError(
                "--deliveries-per-second takes a number from 0 to \(Limits.deliveriesPerSecondMax)."
            )
        }
        for text in limit where LimitSetting(text) == nil {
            throw ValidationError(LimitSetting.fault(in: text))
        }
        guard transport != .epoll || !requireIOUring else {
            throw ValidationError("--require-io-uring and --transport epoll exclude each other.")
        }
        guard metrics.map({ ListenSetting.address($0) != nil }) ?? true else {
            throw ValidationError("--metrics takes address:port, such as 127.0.0.1:9464.")
        }
        guard Logger.Level(rawValue: logLevel) != nil else {
            throw ValidationError("--log-level does not take '\(logLevel)'.")
        }
    }

    /// The options of the command line, with the settings that file and environment have now.
    /// - Throws: the fault of a setting.
    static func typed() throws -> (ServeOptions, GatewayOptions) {
        let words = try Settings.expanded(Array(CommandLine.arguments.dropFirst()))
        let rest = Array(words.dropFirst())
        if words.first == GatewayCommand.configuration.commandName {
            let command = try GatewayCommand.parse(rest)
            return (command.options, command.http)
        }
        let command = try ServeCommand.parse(rest)
        return (command.options, command.http)
    }

    /// OPS-11: the settings that a broker keeps until its end, with their values as text.
    var kept: [(setting: String, value: String)] {
        [
            ("data", dataFolder), ("cluster", place.cluster ?? ""),
            ("node", place.node ?? ""), ("node-address", place.nodeAddress ?? ""), ("host", host),
            ("port", "\(port)"),
            ("listen", "\(listen)"), ("plain-elsewhere", "\(plainElsewhere)"),
            ("proxy", "\(proxy)"), ("tls-certificate", "\(tlsCertificate ?? "")"),
            ("tls-key", "\(tlsKey ?? "")"), ("tls-client-ca", "\(tlsClientCa ?? "")"),
            ("tls-client-senders", "\(tlsClientSenders ?? "")"),
            ("transport", "\(transport)"), ("require-io-uring", "\(requireIOUring)"),
            ("loops", "\(loops)"), ("connections-per-loop", "\(connectionsPerLoop)"),
            ("idle-seconds", "\(idleSeconds)"), ("handshake-seconds", "\(handshakeSeconds)"),
            ("frame-seconds", "\(frameSeconds)"),
            ("deliveries-per-second", "\(deliveriesPerSecond)"), ("metrics", "\(metrics ?? "")"),
            ("log-format", "\(logFormat)"),
        ]
    }

    /// The folder of --data. `Settings` puts those of file and environment in front of the typed words.
    var dataFolder: String { folder.folder ?? DataFolderAccess.usualFolder }

    var level: Logger.Level { Logger.Level(rawValue: logLevel) ?? .notice }

    var configuration: BrokerConfiguration {
        var configuration = BrokerConfiguration(
            folder: dataFolder, address: .init(host: host, port: port))
        if !listen.isEmpty {
            configuration.listeners = listen.compactMap { ListenSetting.listener($0) }
        }
        configuration.allowsPlainElsewhere = plainElsewhere
        configuration.proxies = proxy.compactMap { AddressPrefix($0) }
        configuration.frameSeconds = frameSeconds
        configuration.tls = tlsCertificate.map {
            TLSCredentials(
                certificate: .file($0), key: .file(tlsKey ?? $0),
                clientAuthorities: tlsClientCa.map { .file($0) },
                clientSenders: tlsClientSenders.map { .file($0) })
        }
        configuration.transport = requireIOUring ? .ioUring : transport.kind
        configuration.loopCount = loops
        configuration.connectionsPerLoopMax = connectionsPerLoop
        configuration.idleSeconds = idleSeconds
        configuration.handshakeSeconds = handshakeSeconds
        configuration.deliveriesPerSecond = deliveriesPerSecond
        for setting in limit.compactMap({ LimitSetting($0) }) {
            setting.apply(to: &configuration.limits)
        }
        configuration.logger = .standardError(level, logFormat)
        return configuration
    }

    /// Opens the broker, which listens when `serve` is called, and waits up to a second for a folder in use. Another
    /// command holds the folder for some milliseconds, and so does a killed broker.
    /// - Parameters:
    ///   - hasLocalListener: whether this process must reach the broker in plain text. If no listener serves for
    ///     that, one more listens on a free port of the loopback address.
    ///   - manager: told of whatever makes the start long.
    func open(hasLocalListener: Bool, _ manager: ServiceManager?) async throws -> Broker {
        var configuration = configuration
        configuration.migrating = { manager?.migrating($0) }
        configuration.checkingCopy = { manager?.checkingCopy(byteCount: $0) }
        configuration.servesLater = true
        configuration.cluster = try place.configuration()
        configuration.backupCommand = BackupCommand.words(of: configuration.folder)
        if hasLocalListener, !configuration.listeners.contains(where: { configuration.isLocal($0) })
        {
            configuration.listeners.append(
                BrokerConfiguration.Listener(.init(port: 0), security: .plain))
        }
        let end = ContinuousClock.now + .seconds(1)
        while true {
            do {
                return try await Broker.open(configuration)
            } catch StoreOpenError.inUse where ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }
}
