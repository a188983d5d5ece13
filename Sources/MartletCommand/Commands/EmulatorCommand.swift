// SPDX-License-Identifier: Apache-2.0
//
// `martlet emulator`: a broker and a gateway in a temporary folder, with one project, for the tests of senders. Rests
// on the embedding API and ProgramParts.

import ArgumentParser
import FoundationEssentials
import Logging
import Martlet
import MartletAnswers
import Synchronization

struct EmulatorCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "emulator",
        abstract: "Serve FCM's SDKs from a temporary folder, to test senders.",
        discussion: """
            Prints the variables that SDKs and Martlet's commands read, one line of shell for each, and \
            serves until Ctrl-C. Nothing is kept: the folder is removed at the end.

                martlet emulator > emulator.env &
                while kill -0 $! && ! grep -q MARTLET_DATA emulator.env; do sleep 0.1; done
                . ./emulator.env

            SDKs have no variable for the address. FCM_BASE_URL has the address, for the one line of your \
            code that gives the address to the SDK.
            """)

    @Option(parsing: .unconditional, help: "The project.")
    var project = "emulator"

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The address for SDKs; port 0 lets the system choose.", valueName: "host:port"))
    var http = "127.0.0.1:\(Limits.httpPort)"

    @Option(
        parsing: .unconditional, help: "The address for devices and senders of the binary protocol."
    )
    var host = "127.0.0.1"

    @Option(
        parsing: .unconditional,
        help: "The port for devices and senders, 0 to 65535; 0 lets the system choose."
    )
    var port = UInt16(Limits.defaultPort)

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The address of the gateway as SDKs reach it, for example from outside of a container "
                + "(default: the address of --http).", valueName: "url"))
    var url: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Write the credentials file of SDKs here, in place of the temporary folder; removed at "
                + "the end.", valueName: "file"))
    var credentials: String?

    @OptionGroup var output: OutputOptions

    /// What the command prints.
    private struct Ready: Encodable {
        /// The gateway's URL, as SDKs reach it.
        var url: String
        /// Path of the service account's file.
        var credentials: String
        var project: String
        /// The data folder, for Martlet's own commands.
        var data: String
        /// The port for devices and senders.
        var port: UInt16
        var registrationKey: String
        /// The URL of the console, with a one-time link; nil without a console.
        var console: String?
    }

    func validate() throws {
        guard ListenSetting.address(http) != nil else {
            throw ValidationError("--http takes an address and a port, such as 127.0.0.1:8080.")
        }
        if let url, !url.hasPrefix("http://"), !url.hasPrefix("https://") {
            throw ValidationError("--url takes the beginning of a URL, such as http://broker:8080.")
        }
    }

    func perform() async throws {
        let part = try ProgramParts.requiredGateway()
        let interrupt = Interrupt.prepare()
        try Terminal.writeFromThread(needsResults: true)
        DescriptorLimit.raise()
        let folder = try TemporaryFolder.make("martlet-emulator")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = BrokerConfiguration(
            folder: folder + "/data", address: .init(host: host, port: port))
        configuration.logger = .standardError(.warning)
        // The broker of a test guards no messages of others.
        configuration.allowsPlainElsewhere = true
        var words = ["--http", http, "--http-plain-elsewhere"]
        if let url { words += ["--http-token-url", url + "/token"] }
        let options = try GatewayOptions.parse(words)
        let broker = try await Broker.open(configuration)
        let new: NewProject
        let gateway: any PreparedGateway
        do {
            gateway = try part.prepare(broker, options, logger: configuration.logger)
            new = try await broker.createProject(project)
            try DataFolderAccess(option: folder + "/data").keepRegistrationKey(
                new.registrationKey, of: project)
        } catch {
            try? await broker.close()
            throw error
        }
        let file = credentials.map(TemporaryFolder.absolute) ?? folder + "/service-account.json"
        let written = Mutex<SecretFile?>(nil)
        defer { written.withLock { $0 }?.remove() }
        try await gateway.serve { places in
            let served = places.http ?? ""
            let url = url ?? served
            let account = try ServiceAccountFile(projectID: project, tokenURI: url + "/token")
            try await broker.createServiceAccount(
                keyID: account.keyID, named: "emulator", clientEmail: account.clientEmail,
                publicKey: account.publicKey, in: project)
            let secret = try SecretFile(
                creating: file, holding: account.json + "\n", field: "credentials")
            written.withLock { $0 = secret }
            tell(
                Ready(
                    url: url, credentials: file, project: project, data: folder + "/data",
                    port: broker.port ?? 0, registrationKey: new.registrationKey,
                    console: options.servesConsole
                        ? ConsoleAddress(url: served, folder: folder + "/data")
                            .link(project: project, at: broker.now) : nil))
            // Nobody finds an emulator whose address was not told.
            try Terminal.requirePrinted()
        } until: {
            await interrupt.wait()
        }
    }

    private func tell(_ ready: Ready) {
        guard !output.json else { return JSON.print(ready) }
        let program = CommandLine.arguments.first ?? "martlet"
        let lines = [
            ("GOOGLE_APPLICATION_CREDENTIALS", ready.credentials),
            ("GOOGLE_CLOUD_PROJECT", ready.project), ("FCM_BASE_URL", ready.url),
            ("MARTLET_DATA", ready.data),
        ].map { "export \($0)=\(Self.quoted($1))" }
        Terminal.print(lines.joined(separator: "\n"))
        Terminal.printError(
            """
            A device to send to: \(program) listen --data \(ready.data) --port \(ready.port) \
            --project \(ready.project) --app com.example.test --topic test
            \(ready.console.map { "The console, once: \($0)\n" } ?? "")\
            Ctrl-C ends and removes everything.
            """)
    }

    /// A word of a shell.
    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("'", with: "'\\''") + "'"
    }
}
