// SPDX-License-Identifier: Apache-2.0
//
// A broker in a folder of its own, and a peer that speaks the wire over a blocking socket: nothing
// between the tests and the bytes but the codec. Rests on Martlet.

import Glibc
import Logging
import Martlet
import MartletWire
import Synchronization
import Testing

/// A temporary folder that goes with the test.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        var template = Array(("/tmp/martlet-test-" + String(repeating: "X", count: 6)).utf8CString)
        path = template.withUnsafeMutableBufferPointer { buffer in
            String(cString: mkdtemp(buffer.baseAddress!))
        }
    }

    deinit {
        for name in [
            "data.mdb", "journal.0", "journal.1", "lock.mdb", "martlet.lock", "admin.key",
            "token.key",
            "serve.address",
        ] {
            unlink(path + "/" + name)
        }
        rmdir(path)
    }
}

/// A running broker with a project `tides` and a server key.
struct TestBroker {
    let folder: TemporaryFolder
    let broker: Broker
    let serverKey: String

    static let project = "tides"

    /// - Parameter change: settings that differ from the defaults.
    static func open(
        in folder: TemporaryFolder = TemporaryFolder(), loops: Int = 2,
        _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> TestBroker {
        var configuration = BrokerConfiguration(folder: folder.path, address: .init(port: 0))
        // Tests over sockets run on both transports; see Tests/README.md.
        if let name = getenv("MARTLET_TRANSPORT") {
            configuration.transport = .init(rawValue: String(cString: name))
        }
        configuration.loopCount = loops
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        // Tests of a limit set it; the others are about something else.
        configuration.limits = .none
        change(&configuration)
        let broker = try await Broker.open(configuration)
        if (try? broker.project(project)) == nil {
            try await broker.createOpenProject(project)
        }
        let key = try await broker.createServerKey(named: "test", in: project)
        return TestBroker(folder: folder, broker: broker, serverKey: key.text)
    }

    func peer(from host: UInt8 = 1, receiveBufferBytes: Int32? = nil) throws -> Peer {
        try Peer(port: broker.port!, from: host, receiveBufferBytes: receiveBufferBytes)
    }

    /// A registered device, welcomed.
    func newDevice(
        app: String = "com.example.tides", platform: Platform = .android, from host: UInt8 = 1,
        receiveBufferBytes: Int32? = nil
    ) throws -> (peer: Peer, credentials: InstanceCredentials) {
        let peer = try peer(from: host, receiveBufferBytes: receiveBufferBytes)
        try peer.send(
            .hello(.newDevice(projectID: Self.project, appName: app, platform: platform)))
        let welcome = try peer.welcome()
        return (
            peer, InstanceCredentials(token: welcome.token, deviceKey: welcome.deviceKey)
        )
    }

    /// The device's next connection.
    func connect(
        _ credentials: InstanceCredentials, taken: [UInt64] = [], state: DeviceState = .active
    ) throws -> Peer {
        let peer = try peer()
        try peer.send(
            .hello(
                .device(
                    projectID: Self.project, token: credentials.token,
                    deviceKey: credentials.deviceKey, state: state, unconfirmed: taken)))
        _ = try peer.welcome()
        return peer
    }

    func sender(from host: UInt8 = 1) throws -> Peer {
        let peer = try peer(from: host)
        try peer.send(.hello(.sender(projectID: Self.project, serverKey: serverKey)))
        _ = try peer.welcome()
        return peer
    }
}

extension Broker {
    /// A project in which anybody may register a device of these apps: tests of who may register make their own.
    func createOpenProject(_ id: String) async throws {
        try await createProject(id)
        try await setPolicies(registration: .open, in: id)
        let names = [
            "a", "a.b", "app", "com.example", "com.example.tides", "com.example.gauge",
            "com.example.kept", "com.example.more", "com.example.moors", "com.example.other",
            "com.example.weather", "com.example.ferries", "com.example.python",
            "com.example.python.other",
        ]
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for name in names {
                for platform in Platform.allCases {
                    tasks.addTask { try await self.createApp(name, on: platform, in: id) }
                }
            }
            try await tasks.waitForAll()
        }
    }
}

/// A clock that goes when it is told to.
final class TestClock: Sendable {
    private let now = Atomic<Int64>(1_800_000_000_000)
    func advance(seconds: Int64) { now.add(seconds * 1000, ordering: .sequentiallyConsistent) }
    var instant: Instant {
        Instant(millisecondsSince1970: now.load(ordering: .sequentiallyConsistent))
    }
}

/// One connection, spoken frame by frame. Waiting for a frame that never comes fails after a
/// generous while instead of hanging.
final class Peer {
    private var descriptor: Int32
    private var splitter = FrameSplitter(frameBytesMax: 1 << 20)
    private var arrived: [BrokerFrame] = []
    private var correlation: UInt32 = 0
    /// Counted by `roundTripAmongAnswers`.
    var acceptedCount = 0
    var wasDrained = false

    enum Failure: Error, CustomStringConvertible {
        case connect(Int32)
        case closed
        case silent
        case unexpected(BrokerFrame)
        case receive(Int32)

        /// The failure of a `recv` without bytes.
        static func receiving(_ count: Int, errno: Int32) -> Failure {
            switch errno {
            case _ where count == 0, ECONNRESET: .closed
            case EAGAIN: .silent
            default: .receive(errno)
            }
        }

        var description: String {
            switch self {
            case .connect(let code): "connect: \(String(cString: strerror(code)))"
            case .closed: "the broker closed the connection"
            case .silent: "the broker said nothing"
            case .unexpected(let frame): "unexpected frame: \(frame)"
            case .receive(let code): "receive: \(String(cString: strerror(code)))"
            }
        }
    }

    /// - Parameter host: last byte of the peer's address: 127.0.0.1 and others are this machine's.
    init(port: UInt16, from host: UInt8 = 1, receiveBufferBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var own = sockaddr_in()
        own.sin_family = sa_family_t(AF_INET)
        own.sin_addr.s_addr = (UInt32(0x7F00_0000) | UInt32(host)).bigEndian
        withUnsafePointer(to: &own) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if var bytes = receiveBufferBytes {
            setsockopt(
                descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw Failure.connect(errno) }
        var timeout = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close() }

    func withDescriptor<Result>(_ body: (Int32) -> Result) -> Result { body(descriptor) }

    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Tells the broker that nothing more comes.
    func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

    func send(raw bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure.closed }
            sent += count
        }
    }

    /// Reads bytes without looking at them.
    func discard(_ byteCount: Int) throws {
        var left = byteCount
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while left > 0 {
            let count = recv(descriptor, &buffer, min(left, buffer.count), 0)
            guard count > 0 else { throw Failure.receiving(count, errno: errno) }
            left -= count
        }
    }

    func send(_ frame: ClientFrame) throws {
        var writer = WireWriter()
        frame.encode(into: &writer)
        try send(raw: writer.bytes)
    }

    func nextCorrelation() -> UInt32 {
        correlation += 1
        return correlation
    }

    /// The next frame; what a test does not care about (PING) is passed over.
    func next() throws -> BrokerFrame {
        while arrived.isEmpty {
            var buffer = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw Failure.receiving(count, errno: errno) }
            try buffer.withUnsafeBytes { bytes in
                var chunk = UnsafeRawBufferPointer(rebasing: bytes[..<count])
                while let frame = try splitter.next(from: &chunk) {
                    arrived.append(try BrokerFrame.decode(type: frame.type, body: frame.body))
                }
            }
        }
        return arrived.removeFirst()
    }

    /// Whether a frame comes within a moment. For tests that want none: a wrong frame is seen, a
    /// slow one can only make the test more lenient.
    func hasMore(milliseconds: Int32) -> Bool {
        if !arrived.isEmpty { return true }
        var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&poll, 1, milliseconds) > 0
    }

    func welcome() throws -> Welcome {
        let frame = try next()
        guard case .welcome(let welcome) = frame else {
            if case .error(let error) = frame { throw error.error }
            throw Failure.unexpected(frame)
        }
        return welcome
    }

    func message() throws -> Deliver {
        var frame = try next()
        // How far acknowledgements are on disk comes whenever it is known.
        while case .confirmed = frame { frame = try next() }
        guard case .deliver(let message) = frame else { throw Failure.unexpected(frame) }
        return message
    }

    /// The text of the only data entry `n`.
    func number() throws -> String {
        let message = try message()
        return try Message(decoding: message.message, unknownTags: .skip)["n"] ?? ""
    }

    func error() throws -> MartletError {
        let frame = try next()
        guard case .error(let error) = frame else { throw Failure.unexpected(frame) }
        return error.error
    }

    /// Waits for the end of the connection, passing over what still comes.
    func waitForEnd() throws {
        do {
            while true { _ = try next() }
        } catch Failure.closed {}
    }

    // MARK: Requests

    func subscribe(_ topics: String...) throws -> TopicResult {
        try send(
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: .subscribe, correlation: nextCorrelation(), topics: topics)))
        let frame = try next()
        guard case .topicResult(let result) = frame else { throw Failure.unexpected(frame) }
        return result
    }

    func acknowledge(through: UInt64) throws {
        try send(.acknowledge(Acknowledge(through: through)))
    }

    /// Sends and waits for acceptance.
    @discardableResult
    func send(
        to target: MessageTarget, n: String = "1", timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, collapseKey: String = "", sendAt: Instant? = nil,
        wantsReceipts: Bool = false, validateOnly: Bool = false
    ) throws -> Accepted {
        let body = try Message(data: ["n": n]).encoded()
        try send(
            .send(
                SendRequest(
                    correlation: nextCorrelation(), target: target, message: body,
                    timeToLiveSeconds: timeToLiveSeconds, priority: priority,
                    collapseKey: collapseKey, sendAt: sendAt,
                    options: MessageOptions(wantsReceipts: wantsReceipts),
                    validateOnly: validateOnly)))
        let frame = try next()
        switch frame {
        case .accepted(let accepted): return accepted
        case .error(let error): throw error.error
        default: throw Failure.unexpected(frame)
        }
    }

    /// Waits for the answer to a request that only has one.
    func done() throws {
        let frame = try next()
        if case .error(let error) = frame { throw error.error }
        guard case .done = frame else { throw Failure.unexpected(frame) }
    }

    func report(_ state: DeviceState) throws {
        try send(.deviceState(DeviceStateReport(state: state)))
    }

    /// A PING that has come back: everything the broker was told before has been seen by its loop.
    func roundTrip() throws {
        try send(.ping(Ping(value: 7)))
        guard case .pong = try next() else { throw Failure.silent }
    }
}

/// A thread that blocks as it likes.
final class Thread: @unchecked Sendable {
    private var handle: pthread_t = 0

    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    init(_ run: @escaping @Sendable () -> Void) {
        pthread_create(
            &handle, nil,
            { argument in
                Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(Body(run)).toOpaque())
    }

    func join() { pthread_join(handle, nil) }
}
