// SPDX-License-Identifier: Apache-2.0
//
// `martlet demo`: a broker in a temporary folder and thousands of devices over real sockets; then, in
// a terminal, a broker to play with. Rests on DemoRun.

import ArgumentParser
import FoundationEssentials
import Logging
import Martlet
import MartletClient
import MartletCrypto
import MartletTransport

struct DemoCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show topics and conditions with thousands of devices over real sockets.",
        discussion: """
            Every number is compared with a plain model that shares no code with the broker; one \
            that is wrong makes the exit code 1. In a terminal the broker then goes on serving, and \
            the commands to try are printed. The data folder is temporary and removed at the end.
            """)

    @Option(parsing: .unconditional, help: "How many devices, 20 to 100000.")
    var devices = 5000

    @Option(
        parsing: .unconditional, help: "The seed of the random subscriptions, 0 to \(UInt64.max).")
    var seed: UInt64 = 1

    @Option(
        parsing: .unconditional,
        help: "How the devices' connections are served: io_uring, epoll, or auto.")
    var transport = TransportOption.auto

    @Flag(help: "End after the demo, in a terminal too.")
    var exit = false

    @Flag(help: "Connect the devices over TLS, with a certificate made for the demo.")
    var tls = false

    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard (20...100_000).contains(devices) else {
            throw ValidationError("--devices takes a number from 20 to 100000.")
        }
    }

    func perform() async throws {
        let interrupt = Interrupt.prepare()
        try Terminal.writeFromThread(needsResults: true)
        // Two for each device, one at either end of the connection, and some for the rest.
        let descriptors = DescriptorLimit.raise()
        guard devices * 2 + 500 <= descriptors else {
            throw MartletError(
                .invalidArgument,
                "\(devices) devices need \(devices * 2 + 500) open descriptors and the limit is "
                    + "\(descriptors). Raise it (ulimit -n), or use fewer devices.",
                field: "devices")
        }
        let folder = try TemporaryFolder.make("martlet-demo")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = BrokerConfiguration(folder: folder, address: .init(port: 0))
        configuration.logger = .standardError(.warning)
        configuration.transport = transport.kind
        configuration.connectionsPerLoopMax = devices + 1000
        configuration.reconnectDelayMilliseconds = 100
        // The demo makes in seconds the subscriptions of weeks, so changes of topics have no limit here.
        configuration.limits.topicChangesPerSecond = 0
        // All devices have one address, and connect and register at once.
        configuration.limits.handshakesPerAddressMax = 0
        configuration.limits.registrationsPerSecondPerAddress = 0
        configuration.limits.registrationsPerSecond = 0
        var encryption: Encryption?
        if tls {
            let made = try SelfSignedCertificate(
                names: ["DNS:localhost", "IP:127.0.0.1"], commonName: "Martlet demo", days: 1)
            configuration.tls = TLSCredentials(
                certificate: .text(made.certificate), key: .text(made.key))
            encryption = try ProgramParts.encryption(
                trusting: .certificate(sha256: made.fingerprint))
        }
        let broker = try await Broker.open(configuration)
        if !output.json {
            Terminal.print(
                "A broker on 127.0.0.1:\(broker.port ?? 0) over \(broker.transport.rawValue) with an "
                    + "empty store in \(folder)")
        }
        let isRight: Bool
        let fleet: DemoFleet
        do {
            let run = DemoRun(
                plan: DemoPlan(deviceCount: devices, seed: seed), broker: broker,
                encryption: encryption,
                isJSON: output.json, interrupt: interrupt)
            (isRight, fleet) = try await run.perform()
        } catch {
            try? await broker.close()
            if error is CancellationError { throw ExitCode(1) }
            throw error
        }
        try await broker.close()
        if Terminal.isInteractive, !exit, !output.json, !interrupt.hasFired {
            try await serve(folder, fleet, interrupt)
        }
        if !isRight { throw ExitCode(1) }
    }

    /// Serves the same store again, on the usual port, or on any port if the usual port is taken.
    private func serve(
        _ folder: String, _ fleet: DemoFleet, _ interrupt: Interrupt.Waiter
    ) async throws {
        var configuration = BrokerConfiguration(folder: folder, address: .init())
        configuration.logger = .standardError(.warning)
        configuration.transport = transport.kind
        let broker: Broker
        do {
            broker = try await Broker.open(configuration)
        } catch TransportError.addressInUse {
            configuration.address?.port = 0
            broker = try await Broker.open(configuration)
        }
        let port = Int(broker.port ?? 0)
        let program = CommandLine.arguments.first ?? "martlet"
        let place = port == Limits.defaultPort ? "" : " --port \(port)"
        let project = "--project \(DemoRun.project)"
        // A shell takes `!(` for a line of its history, and `! (` for what it is.
        Terminal.print(
            """

            The broker goes on: 127.0.0.1:\(port), data in \(folder). From another terminal, in this \
            folder:

              export MARTLET_DATA=\(folder)
              \(program) listen \(project) --app com.example.tides --platform android \
            --topic tides --state \(folder)/listen.json\(place)
              \(program) send \(project) --condition "'tides' in topics && ! ('silent' in topics)" \
            --title "High tide" --body "at 14:05"
              \(program) explain \(project) \
            "'dogs' in topics || 'cats' in topics && 'weather' in topics"
              \(program) audience \(project) "! ('weather' in topics)"
              \(program) topics \(project)

            Ctrl-C ends and removes the folder.
            """)
        guard let part = try? ProgramParts.requiredGateway() else {
            Terminal.print(
                "`make build` builds the program with a console for browsers: martlet gateway.")
            await interrupt.wait()
            return try await broker.close()
        }
        let gateway: any PreparedGateway
        do {
            let options = try GatewayOptions.parse(["--http", "127.0.0.1:0"])
            gateway = try part.prepare(broker, options, logger: configuration.logger)
        } catch {
            try? await broker.close()
            throw error
        }
        let pulse = DemoPulse(broker: broker, fleet: fleet.moved(to: port))
        try await gateway.serve { places in
            Terminal.print(
                """

                \(ConsoleAddress(url: places.http ?? "", folder: folder).line(at: broker.now))
                Some devices stay connected, and a message goes out every \
                \(DemoPulse.interval.components.seconds) seconds: the console shows them.
                """)
        } until: {
            let beating = Task { await pulse.run() }
            await interrupt.wait()
            beating.cancel()
            await beating.value
        }
    }
}
