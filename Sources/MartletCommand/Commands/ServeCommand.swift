// SPDX-License-Identifier: Apache-2.0
//
// `martlet serve`: runs a broker on a data folder, with a gateway on request, until a signal. `martlet gateway`:
// `martlet serve` with a gateway. Rests on the embedding API and ProgramParts.

import ArgumentParser
import Glibc
import Logging
import Martlet
import MartletAnswers
import MartletTransport

struct ServeCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a broker.",
        discussion: """
            Prints one line when it listens. SIGINT (Ctrl-C), SIGTERM or SIGHUP tells clients to go, finishes \
            what was accepted, and ends with 0; a signal more than 3 seconds later ends at once. With --tls-certificate, \
            --http-certificate or --xmpp-certificate, with a file of settings, or under a service \
            manager (NOTIFY_SOCKET), SIGHUP reads certificates, keys, limits and log level again \
            instead. Logs go to standard error. With --http, FCM's SDKs are served too, and with --xmpp \
            app servers that speak XMPP. With --apns, messages for Apple devices without a connection go to Apple.
            """)

    @OptionGroup var options: ServeOptions
    @OptionGroup var http: GatewayOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        try await Serving(options: options, http: http, output: output, httpOtherwise: nil).run()
    }
}

struct GatewayCommand: ReportingCommand {
    /// The gateway's address if --http is not given.
    static let address = "127.0.0.1:\(Limits.httpPort)"

    static let configuration = CommandConfiguration(
        commandName: "gateway",
        abstract: "Run a broker, and serve FCM's SDKs over HTTP.",
        discussion: """
            The same as `martlet serve --http \(address)`. SDKs authenticate with the file that \
            `martlet service-account create` prints.
            """)

    @OptionGroup var options: ServeOptions
    @OptionGroup var http: GatewayOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        try await Serving(
            options: options, http: http, output: output, httpOtherwise: Self.address
        ).run()
    }
}

/// A broker, and perhaps a gateway, from start to end.
private struct Serving {
    var options: ServeOptions
    var http: GatewayOptions
    var output: OutputOptions
    var httpOtherwise: String?

    /// Whether the gateway serves the console, at the address in use.
    private var servesConsole: Bool {
        var options = http
        options.http = options.http ?? httpOtherwise
        return options.servesConsole
    }

    private struct Ready: Encodable {
        /// The first address.
        var host: String
        var port: UInt16
        /// All addresses, as `address:port`.
        var listening: [String]
        var data: String
        /// Whether the data folder had no data before.
        var isDataNew: Bool
        /// The interface of the kernel that serves connections.
        var transport: String
        /// The gateway's URL; nil without a gateway.
        var http: String?
        /// The places for app servers over XMPP, as `address:port`; nil without XMPP.
        var xmpp: [String]?
        /// The URL of the console; nil without a console.
        var console: String?
        /// The URL of the metrics; nil without an address for them.
        var metrics: String?
    }

    func run() async throws {
        var http = http
        http.http = http.http ?? httpOtherwise
        // Not judged with the options: a gateway has an address without --http.
        if let fault = http.missingAddress { throw ValidationError(fault) }
        let part = http.isWanted ? try ProgramParts.requiredGateway() : nil
        try ProcessStart.requireThreads(Self.threads(loops: options.loops, hasGateway: part != nil))
        let interrupt = Interrupt.prepare()
        try Terminal.writeFromThread(options.logFormat, needsResults: false)
        do { try await serve(http, part, interrupt) } catch {
            // With --json a refusal is one object on standard error.
            guard !output.json, !(error is ValidationError) else { throw error }
            let report = FailureReport(error)
            Logger.standardError(options.level, options.logFormat).critical(
                "\(report.message)", metadata: report.metadata)
            throw ExitCode.failure
        }
    }

    /// OPS-2: the log has begun, and has the reason of a start that fails.
    private func serve(
        _ http: GatewayOptions, _ part: (any GatewayPart)?, _ interrupt: Interrupt.Waiter
    ) async throws {
        DescriptorLimit.raise()
        let manager = ServiceManager()
        let broker = try await options.open(hasLocalListener: http.needsLocalListener, manager)
        let logger = options.configuration.logger
        if let (file, folder) = Settings.overriddenFolder(CommandLine.arguments) {
            logger.warning(
                "the data folder is that of MARTLET_DATA, and the file of settings names another",
                metadata: ["file": "\(file)", "data": "\(folder)"])
        }
        let serviceVariables = Settings.serviceVariables
        if !serviceVariables.isEmpty {
            logger.notice(
                "variables that Kubernetes sets for a service called martlet are no settings",
                metadata: ["variables": "\(serviceVariables.joined(separator: ", "))"])
        }
        let metrics: MetricsListener?
        let gateway: (any PreparedGateway)?
        do {
            metrics = try options.metrics.flatMap { ListenSetting.address($0) }.map { address in
                try MetricsListener(
                    address, text: { broker.metricsText },
                    health: { broker.isServing ? broker.writeFault : "The broker is starting." },
                    now: { broker.now })
            }
            gateway = try part?.prepare(broker, http, logger: logger)
        } catch {
            try await broker.close()
            throw error
        }
        defer { metrics?.end() }
        let isReloaded =
            options.tlsCertificate != nil || http.httpCertificate != nil
            || http.xmppCertificate != nil || Settings.hasFile(options.config) || manager != nil
        if isReloaded { interrupt.reload { reload(broker, gateway, logger, manager) } }
        let watch = try SilenceWatch(broker, manager, logger)
        defer { watch.end() }
        guard let gateway else {
            do { try broker.serve() } catch {
                try await broker.close()
                throw error
            }
            tellReady(broker, GatewayPlaces(), metrics: metrics)
            manager?.ready()
            await interrupt.wait()
            manager?.stopping()
            return try await showing(Self.finishing) { try await broker.close() }
        }
        let ended = AsyncStream<Never>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { ended.continuation.finish() }
                try await gateway.serve { places in
                    // Devices come last: every other port is open now.
                    try broker.serve()
                    tellReady(broker, places, metrics: metrics)
                    manager?.ready()
                } until: {
                    await interrupt.wait()
                    manager?.stopping()
                }
            }
            tasks.addTask {
                await interrupt.wait()
                guard interrupt.hasFired else { return }
                await showing(Self.finishing) { for await _ in ended.stream {} }
            }
            try await tasks.next()
            tasks.cancelAll()
            try await tasks.waitForAll()
        }
    }

    /// Threads of a broker: the loops, Swift's tasks and the event loops of a gateway by the core, and some for files,
    /// names and the store.
    private static func threads(loops: Int, hasGateway: Bool) -> Int {
        let cores = Processors.available
        return (loops > 0 ? loops : Processors.count()) + cores + (hasGateway ? cores : 0) + 8
    }

    /// OPS-11: reads certificates, limits and the log level again. A fault of one setting does not touch the others.
    private func reload(
        _ broker: Broker, _ gateway: (any PreparedGateway)?, _ logger: Logger,
        _ manager: ServiceManager?
    ) {
        manager?.reloading()
        defer { manager?.ready() }
        do {
            let (new, newHTTP) = try ServeOptions.typed()
            CommandLog.setLevel(new.level)
            logger.notice("the log level was read again")
            take(new, newHTTP, broker, logger)
        } catch {
            logger.error("the settings stay as they were", metadata: ["error": "\(error)"])
        }
        func read(_ setting: String, _ body: () throws -> Void) {
            do {
                try body()
                logger.notice(
                    "certificate and key were read again", metadata: ["setting": "\(setting)"])
            } catch {
                logger.error(
                    "certificate and key stay as they were",
                    metadata: ["setting": "\(setting)", "error": "\(error)"])
            }
        }
        if options.tlsCertificate != nil {
            read("tls-certificate") { try broker.reloadCertificates() }
        }
        if let gateway, http.httpCertificate != nil {
            read("http-certificate") { try gateway.reloadCertificate() }
        }
        if let gateway, !http.xmpp.isEmpty {
            read(http.xmppCertificate == nil ? "xmpp" : "xmpp-certificate") {
                try gateway.reloadXMPPCertificate()
            }
        }
    }

    /// OPS-11: takes limits over. Names the settings that the broker keeps until a restart.
    private func take(
        _ new: ServeOptions, _ newHTTP: GatewayOptions, _ broker: Broker, _ logger: Logger
    ) {
        let (old, wanted) = (broker.limits, new.configuration.limits)
        let inForce = broker.change(limits: wanted)
        let changes = LimitSetting.changes(from: old, to: inForce)
        if !changes.isEmpty {
            logger.notice(
                "limits changed", metadata: ["limits": "\(changes.joined(separator: ", "))"])
        }
        let kept = LimitSetting.changes(from: inForce, to: wanted).map { "limit \($0)" }
        let others = zip(options.kept + http.kept, new.kept + newHTTP.kept)
            .filter { $0.0.value != $0.1.value }.map(\.0.setting)
        guard !(kept + others).isEmpty else { return }
        logger.warning(
            "changed settings need a restart",
            metadata: ["settings": "\((kept + others).joined(separator: ", "))"])
    }

    private static let finishing =
        "Finishing what was accepted; another signal after some seconds ends at once"

    private func tellReady(
        _ broker: Broker, _ gateway: GatewayPlaces, metrics: MetricsListener?
    ) {
        let http = gateway.http
        let metricsURL = options.metrics.flatMap { ListenSetting.address($0) }.flatMap { address in
            metrics.map { "http://\(HostPort(host: address.host, port: $0.port))/metrics" }
        }
        let folder = options.dataFolder
        let listeners = options.configuration.listeners
        let places = zip(listeners, broker.ports).map {
            "\(HostPort(host: $0.address.host, port: $1))"
        }
        if output.json {
            JSON.print(
                Ready(
                    host: listeners[0].address.host, port: broker.ports[0], listening: places,
                    data: folder, isDataNew: broker.isFolderNew,
                    transport: broker.transport.rawValue, http: http,
                    xmpp: gateway.xmpp.isEmpty ? nil : gateway.xmpp,
                    console: servesConsole ? http.map { $0 + ConsoleAddress.path } : nil,
                    metrics: metricsURL))
        } else {
            for (listener, place) in zip(listeners, places)
            where options.configuration.security(of: listener) == .plain
                && !listener.address.isLoopback
            {
                Terminal.printError(
                    "\(place) is plain text: every machine on the way reads messages and credentials. "
                        + "Administrators are refused there.")
            }
            let source = Settings.sourceOfFolder(CommandLine.arguments)
            let sdks = http.map { ", SDKs at \($0)" } ?? ""
            let appServers =
                gateway.xmpp.isEmpty ? "" : ", XMPP at \(gateway.xmpp.joined(separator: ", "))"
            let measured = metricsURL.map { ", metrics at \($0)" } ?? ""
            Terminal.print(
                "Martlet listens on \(places.joined(separator: ", "))\(sdks)\(appServers)"
                    + "\(measured), data in "
                    + "\(folder)\(source.map { " (by \($0))" } ?? "")"
                    + "\(broker.isFolderNew ? ", which is new" : ""). Ctrl-C stops it.")
            guard let http, servesConsole else { return }
            Terminal.print(ConsoleAddress(url: http, folder: folder).line(at: broker.now))
        }
    }
}
