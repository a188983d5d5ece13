// SPDX-License-Identifier: Apache-2.0
//
// A gateway that is served over HTTP on a broker of its own, and a peer that speaks HTTP byte by byte
// over a blocking socket. Rests on MartletGateway.

import Foundation
import Glibc
import JWTKit
import Logging
import Martlet
import MartletClient
import MartletGateway
import ServiceLifecycle
import Synchronization
import Testing

/// Suites whose peers block a thread, which a gateway needs: one test at a time.
@Suite("Gateway: over HTTP", .serialized)
struct OverHTTP {}

/// A served gateway, while the body of `run` lasts.
struct ServedGateway {
    static let project = "tides"

    let broker: Broker
    let gateway: Gateway
    let services: ServiceGroup
    let port: UInt16
    let serverKey: String

    var url: String { "http://127.0.0.1:\(port)" }

    static func run(
        in folder: TestFolder = TestFolder(), clock: TestClock? = nil,
        broker settings: (inout BrokerConfiguration) -> Void = { _ in },
        _ change: (inout GatewayConfiguration) -> Void = { _ in },
        _ body: (ServedGateway) async throws -> Void
    ) async throws {
        let broker = try await folder.open(clock: clock, settings)
        if (try? broker.project(project)) == nil { _ = try await broker.createProject(project) }
        let key = try await broker.createServerKey(named: "test", in: project)
        var configuration = GatewayConfiguration()
        configuration.address.port = 0
        configuration.logger.logLevel = .critical
        change(&configuration)
        let gateway = Gateway(broker, configuration)
        let server = try GatewayServer(gateway)
        let services = ServiceGroup(
            configuration: .init(
                services: [BrokerService(broker), server], logger: configuration.logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await services.run() }
            let port = try await server.port()
            try await body(
                ServedGateway(
                    broker: broker, gateway: gateway, services: services, port: port,
                    serverKey: key.text))
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    func peer() throws -> HTTPPeer { try HTTPPeer(port: port) }

    /// A registered instance that connects when its messages are asked for.
    func newDevice(app: String = "com.example.tides") async throws -> MartletDevice {
        let known = try await broker.register(app: app, platform: .android, in: Self.project)
        return MartletDevice(
            host: "127.0.0.1", port: Int(broker.port!),
            credentials: DeviceCredentials(
                projectID: Self.project, token: known.token, deviceKey: known.deviceKey))
    }

    /// A new service account, known to the broker.
    func newAccount(in project: String = Self.project) async throws -> TestAccount {
        let file = try ServiceAccountFile(projectID: project, tokenURI: url + "/token")
        try await broker.createServiceAccount(
            keyID: file.keyID, named: "test", clientEmail: file.clientEmail,
            publicKey: file.publicKey, in: project)
        return TestAccount(file)
    }
}

/// A data folder that goes with the test.
final class TestFolder: Sendable {
    let url = FileManager.default.temporaryDirectory
        .appending(path: "martlet-http-\(UUID().uuidString)")

    deinit { try? FileManager.default.removeItem(at: url) }

    func open(
        clock: TestClock? = nil, _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> Broker {
        var configuration = BrokerConfiguration(folder: url.path, address: .init(port: 0))
        configuration.loopCount = 1
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        configuration.limits = .none
        if let clock { configuration.clock = { clock.instant } }
        change(&configuration)
        return try await Broker.open(configuration)
    }

    /// A broker without HTTP in a folder of its own, which lasts as long as the body.
    static func withBroker(_ body: (Broker) async throws -> Void) async throws {
        let folder = TestFolder()
        defer { withExtendedLifetime(folder) {} }
        let broker = try await folder.open()
        try await body(broker)
        try await broker.close()
    }
}

/// A clock that goes when it is told to.
final class TestClock: Sendable {
    private let now = Atomic<Int64>(1_800_000_000_000)
    func advance(seconds: Int64) { now.add(seconds * 1000, ordering: .sequentiallyConsistent) }
    var instant: Instant {
        Instant(millisecondsSince1970: now.load(ordering: .sequentiallyConsistent))
    }
    var seconds: Double { Double(instant.millisecondsSince1970) / 1000 }
}

/// What an SDK has: the file, and what it signs with it.
struct TestAccount {
    struct Claims: JWTPayload {
        var iss: String
        var aud: String
        var iat: Double
        var exp: Double
        var nbf: Double?
        var scope: String?
        func verify(using algorithm: some JWTAlgorithm) {}
    }

    let file: ServiceAccountFile
    let members: JSONValue

    init(_ file: ServiceAccountFile) {
        self.file = file
        members = (try? JSONValue(parsing: file.json)) ?? .null
    }

    /// Claims of an SDK, as of now.
    func claims(now: Double = Date().timeIntervalSince1970) -> Claims {
        Claims(
            iss: file.clientEmail, aud: "https://oauth2.googleapis.com/token", iat: now,
            exp: now + 3600,
            scope: "https://www.googleapis.com/auth/cloud-platform "
                + "https://www.googleapis.com/auth/datastore")
    }

    /// - Parameters:
    ///   - keyID: nil: the account's own; empty: none.
    ///   - fields: further ones of the header.
    func sign(
        _ claims: Claims, keyID: String? = nil, _ fields: [String: JWTHeaderField] = [:]
    ) async throws -> String {
        let key = try Insecure.RSA.PrivateKey(pem: try #require(members["private_key"]?.string))
        let keys = await JWTKeyCollection().add(rsa: key, digestAlgorithm: .sha256)
        var header: JWTHeader = ["alg": "RS256"]
        let keyID = keyID ?? file.keyID
        if !keyID.isEmpty { header.fields["kid"] = .string(keyID) }
        header.fields.merge(fields) { $1 }
        return try await keys.sign(claims, header: header)
    }
}

/// One connection. Waiting for what never comes fails after a generous while instead of hanging.
final class HTTPPeer {
    struct Answer {
        var status: Int
        var headers: [String: String]
        var body: String
        var json: JSONValue { (try? JSONValue(parsing: body)) ?? .string(body) }
    }

    enum Failure: Error {
        case connect(Int32)
        case closed
    }

    private let descriptor: Int32
    private var arrived: [UInt8] = []

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            close(descriptor)
            throw Failure.connect(errno)
        }
    }

    deinit { close(descriptor) }

    /// - Returns: false if the connection has ended.
    @discardableResult
    func write(_ text: String) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// A whole request.
    func request(
        _ method: String, _ target: String, headers: [(String, String)] = [], _ body: String = ""
    ) {
        let lines = headers.map { "\($0.0): \($0.1)\r\n" }.joined()
        write(
            "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\(lines)"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// The next answer.
    /// - Parameter isHeadOnly: HEAD was asked.
    func answer(isHeadOnly: Bool = false) throws -> Answer {
        while true {
            if let end = headEnd {
                let head = String(decoding: arrived[..<end], as: UTF8.self)
                let lines = head.components(separatedBy: "\r\n")
                var headers: [String: String] = [:]
                for line in lines.dropFirst() {
                    let sides = line.split(separator: ":", maxSplits: 1)
                    guard sides.count == 2 else { continue }
                    headers[sides[0].lowercased()] = sides[1].trimmingCharacters(in: .whitespaces)
                }
                let count = isHeadOnly ? 0 : Int(headers["content-length"] ?? "0") ?? 0
                let bodyEnd = end + 4 + count
                if arrived.count >= bodyEnd {
                    let body = String(decoding: arrived[(end + 4)..<bodyEnd], as: UTF8.self)
                    arrived.removeFirst(bodyEnd)
                    let status = Int(lines[0].split(separator: " ")[1]) ?? 0
                    return Answer(status: status, headers: headers, body: body)
                }
            }
            guard try read() else { throw Failure.closed }
        }
    }

    /// The connection ends, whatever comes before.
    func end() throws {
        while try read() {}
    }

    private var headEnd: Int? {
        arrived.indices.first {
            $0 + 4 <= arrived.count && Array(arrived[$0..<($0 + 4)]) == Array("\r\n\r\n".utf8)
        }
    }

    /// - Returns: false at the end.
    private func read() throws -> Bool {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 || errno == ECONNRESET else { throw Failure.connect(errno) }
        arrived += bytes.prefix(max(0, count))
        return count > 0
    }
}
