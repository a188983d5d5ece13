// SPDX-License-Identifier: Apache-2.0
//
// A broker with a project and an XMPP connection server before it, on real sockets and over TLS, and devices that are
// connected to the broker. Rests on MartletXMPP and MartletClient.

import Foundation
import Logging
import Martlet
import MartletClient
import MartletGateway
import MartletXMPP
import ServiceLifecycle
import Synchronization
import Testing

/// Suites whose servers share the machine: one test at a time.
@Suite(
    "XMPP", .serialized,
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"), "needs openssl"))
struct OverXMPP {}

/// A data folder that goes with the test, with a certificate for the server.
final class XMPPFolder: Sendable {
    let url = FileManager.default.temporaryDirectory
        .appending(path: "martlet-xmpp-\(UUID().uuidString)")

    init() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        try renewCertificate()
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var certificate: GatewayConfiguration.Certificate {
        .init(
            chain: url.appending(path: "chain.pem").path, key: url.appending(path: "key.pem").path)
    }

    /// Makes a new certificate in the place of the old one.
    func renewCertificate() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/openssl")
        process.arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", certificate.key, "-out", certificate.chain, "-days", "2", "-subj",
            "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost,DNS:fcm.googleapis.com,IP:127.0.0.1",
        ]
        process.standardError = Pipe()
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    func open(_ change: (inout BrokerConfiguration) -> Void = { _ in }) async throws -> Broker {
        var configuration = BrokerConfiguration(
            folder: url.appending(path: "data").path, address: .init(port: 0))
        configuration.loopCount = 1
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        configuration.limits = .none
        change(&configuration)
        return try await Broker.open(configuration)
    }
}

/// A served broker, while the body of `run` lasts.
struct XMPPWorld: Sendable {
    static let project = "tides"

    let folder: XMPPFolder
    let broker: Broker
    let server: XMPPServer
    let services: ServiceGroup
    let keyID: String
    let serverKey: String
    let senderID: UInt64
    let port: UInt16
    private let devices = OpenDevices()

    /// Devices that close with the world.
    private final class OpenDevices: Sendable {
        let all = Mutex<[MartletDevice]>([])
    }

    private init(
        folder: XMPPFolder, broker: Broker, server: XMPPServer, services: ServiceGroup,
        keyID: String, serverKey: String, senderID: UInt64, port: UInt16
    ) {
        (self.folder, self.broker, self.server) = (folder, broker, server)
        (self.services, self.keyID, self.serverKey) = (services, keyID, serverKey)
        (self.senderID, self.port) = (senderID, port)
    }

    /// - Parameters:
    ///   - settings: settings of the broker that differ from a test's.
    ///   - fault: what the broker answers in the place of what it would.
    ///   - isDrained: whether the node is drained.
    ///   - change: settings of the server that differ from a test's.
    static func run(
        in folder: XMPPFolder? = nil,
        broker settings: (inout BrokerConfiguration) -> Void = { _ in },
        fault: (@Sendable (OutgoingMessage) -> MartletError?)? = nil,
        isDrained: (@Sendable () -> Bool)? = nil,
        _ change: (inout XMPPConfiguration) -> Void = { _ in },
        _ body: (XMPPWorld) async throws -> Void
    ) async throws {
        let folder = try folder ?? XMPPFolder()
        defer { withExtendedLifetime(folder) {} }
        let broker = try await folder.open(settings)
        if (try? broker.project(project)) == nil { _ = try await broker.createProject(project) }
        let key = try await broker.createServerKey(named: "test", in: project)
        var configuration = XMPPConfiguration(certificate: folder.certificate)
        configuration.addresses = [.init(port: 0)]
        configuration.logger.logLevel = .critical
        change(&configuration)
        let server = try XMPPServer(
            broker, configuration, fault: fault, isDrained: isDrained)
        let services = ServiceGroup(
            configuration: .init(
                services: [BrokerService(broker), server], logger: configuration.logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await services.run() }
            let world = XMPPWorld(
                folder: folder, broker: broker, server: server, services: services,
                keyID: key.id, serverKey: key.text,
                senderID: try broker.project(project).senderID,
                port: try await server.ports()[0])
            let result: Result<Void, any Error>
            do { result = .success(try await body(world)) } catch { result = .failure(error) }
            for device in world.devices.all.withLock({ $0 }) { await device.close() }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try result.get()
        }
    }

    // MARK: Devices

    func newToken(app: String = "com.example.tides") async throws -> String {
        try await broker.register(app: app, platform: .android, in: Self.project).token
    }

    /// A registered instance that connects when its messages are asked for.
    func newDevice(app: String = "com.example.tides") async throws -> MartletDevice {
        let known = try await broker.register(app: app, platform: .android, in: Self.project)
        var options = DeviceOptions()
        options.acknowledgementDelay = .zero
        let device = MartletDevice(
            host: "127.0.0.1", port: Int(broker.port!),
            credentials: DeviceCredentials(
                projectID: Self.project, token: known.token, deviceKey: known.deviceKey),
            options: options)
        devices.all.withLock { $0.append(device) }
        return device
    }

    /// Sends as a device that the broker's process manages.
    func sendUpstream(_ id: String, from token: String, _ text: String = "x") async throws {
        try await broker.sendUpstream(
            Message(data: ["text": text]), from: token, in: Self.project, messageID: id)
    }

    // MARK: App servers

    /// A connection over which nothing was said.
    /// - Parameter address: the peer's address.
    func newPeer(from address: String = "127.0.0.1") async throws -> StanzaPeer {
        try await StanzaPeer.connect(
            port: port, trusting: folder.certificate.chain, from: address)
    }

    /// The credential of the mechanism PLAIN.
    func plain(user: String? = nil, key: String? = nil, identity: String = "") -> String {
        let user = user ?? "\(senderID)@fcm.googleapis.com"
        return Data("\(identity)\0\(user)\0\(key ?? serverKey)".utf8).base64EncodedString()
    }

    /// An app server that has signed in and bound a resource.
    func newAppServer() async throws -> StanzaPeer {
        let peer = try await newPeer()
        try await peer.signIn(plain())
        return peer
    }
}

/// JSON as a test writes it.
func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text) }

/// Lines of a log, with their metadata.
final class XMPPLog: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    private struct Handler: LogHandler {
        let log: XMPPLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }
            let text = all.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
            log.lines.withLock { $0.append("\(event.message) \(text)") }
        }
    }
}
