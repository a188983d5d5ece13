// SPDX-License-Identifier: Apache-2.0
//
// TLS on the device port, with other people's clients: OpenSSL's, swift-nio-ssl's BoringSSL, and Python's (OPS-6). OpenSSL's,
// BoringSSL's by swift-nio-ssl, Python's. Rests on Support and SecurePeer.

import Foundation
import Martlet
import MartletClient
import MartletClientTLS
import MartletCrypto
import MartletWire
import Synchronization
import TLSPeers
import Testing

@Suite("TLS on the device port", .timeLimit(.minutes(3)))
struct SecurePortTests {
    /// Certificate and key in files of a folder.
    private struct Files {
        let folder = TemporaryFolder()
        var chain: String { folder.path + ".pem" }
        var key: String { folder.path + ".key" }

        init() throws { _ = try write() }

        /// Writes a new certificate.
        /// - Returns: its fingerprint.
        func write() throws -> [UInt8] {
            let made = try SelfSignedCertificate(names: ["DNS:localhost", "IP:127.0.0.1"])
            try made.certificate.write(toFile: chain, atomically: true, encoding: .utf8)
            try made.key.write(toFile: key, atomically: true, encoding: .utf8)
            return made.fingerprint
        }

        var credentials: TLSCredentials {
            TLSCredentials(certificate: .file(chain), key: .file(key))
        }

        func remove() {
            try? FileManager.default.removeItem(atPath: chain)
            try? FileManager.default.removeItem(atPath: key)
        }
    }

    private func waitUntil(_ condition: () throws -> Bool) rethrows {
        for _ in 0..<20_000 {
            if try condition() { return }
            usleep(1000)
        }
        #expect(try condition())
    }

    private func open(
        _ files: Files, loops: Int = 2, _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> TestBroker {
        try await TestBroker.open(loops: loops) {
            $0.tls = files.credentials
            change(&$0)
        }
    }

    // MARK: Clients of others

    @Test(
        "OPS-6 the Swift clients send and receive over TLS, with an authority or a known certificate"
    )
    func swiftClients() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let port = Int(test.broker.port!)
        let trusts: [ClientTLS.Trust] = [
            .authorities(file: files.chain),
            .certificate(sha256: try TLSServer(files.credentials).current.fingerprint),
        ]
        for (round, trust) in trusts.enumerated() {
            var deviceOptions = DeviceOptions()
            try deviceOptions.use(ClientTLS(trust: trust))
            var senderOptions = ClientOptions()
            try senderOptions.use(ClientTLS(trust: trust))
            let credentials = try await MartletDevice.register(
                host: "127.0.0.1", port: port, projectID: TestBroker.project, appName: "a.b",
                platform: .android, options: deviceOptions)
            let device = MartletDevice(
                host: "127.0.0.1", port: port, credentials: credentials, options: deviceOptions)
            try await device.connect()
            try await device.subscribe(toTopic: "tides\(round)")
            let sender = try await MartletSender.connect(
                host: "127.0.0.1", port: port, projectID: TestBroker.project,
                serverKey: test.serverKey, options: senderOptions)
            // Frames of several records, both ways.
            let text = String(repeating: "x", count: 3800)
            for number in 0..<50 {
                let message = Message(data: ["n": "\(number)", "text": text])
                _ = try await sender.send(
                    OutgoingMessage(to: .topic("tides\(round)"), message))
            }
            var received = 0
            for try await message in device.messages {
                #expect(message["n"] == "\(received)" && message["text"] == text)
                received += 1
                if received == 50 { break }
            }
            await device.close()
            await sender.close()
        }
        #expect(test.broker.statistics.handshakeCount >= 6)
        try await test.broker.close()
    }

    @Test("OPS-6 a client refuses a certificate that it does not know, and sends no credential")
    func unknownCertificate() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        for trust in [
            ClientTLS.Trust.system, .certificate(sha256: [UInt8](repeating: 1, count: 32)),
        ] {
            var options = ClientOptions()
            options.attemptsMax = 1
            try options.use(ClientTLS(trust: trust))
            await #expect(throws: MartletError.self) {
                try await MartletSender.connect(
                    host: "127.0.0.1", port: Int(test.broker.port!),
                    projectID: TestBroker.project, serverKey: test.serverKey, options: options)
            }
        }
        #expect(test.broker.statistics.handshakeCount == 0)
        try await test.broker.close()
    }

    @Test(
        "NET-1 OPS-6 devices and senders written in Python from the document alone, over TLS",
        arguments: ["device_and_sender.py", "groups_upstream_receipts.py"])
    func speaksPython(round: String) async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", "-B", tests.appending(path: "Python/\(round)").path,
            "--host", "127.0.0.1", "--port", "\(test.broker.port!)", "--project",
            TestBroker.project, "--server-key", test.serverKey, "--ca", files.chain,
        ]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(
            decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
        try await test.broker.close()
    }

    // MARK: Records

    @Test("OPS-6 a device whose bytes come one by one is served; keys change both ways in between")
    func fragments() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let peer = try SecurePeer(test)
        peer.chunkBytes = 1
        _ = try peer.newDevice()
        for number in 0..<40 {
            if number % 4 == 0 { peer.tls.updateKey(asking: number % 8 == 0) }
            try peer.roundTrip(UInt64(number))
        }
        try await test.broker.close()
    }

    @Test("OPS-6 long frames and many frames at once arrive whole in both directions")
    func bulk() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files, loops: 1)
        let (receiver, sender) = (try SecurePeer(test), try SecurePeer(test))
        let token = try receiver.newDevice().token
        try sender.send(.hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        _ = try sender.welcome()
        let body = try Message(data: ["n": String(repeating: "y", count: 3900)]).encoded()
        let count = 200
        for number in 0..<count {
            try sender.send(
                .send(
                    SendRequest(
                        correlation: UInt32(number + 1), target: .token(token), message: body)))
        }
        for _ in 0..<count {
            guard case .accepted = try sender.next() else { throw Peer.Failure.silent }
        }
        for _ in 0..<count {
            guard case .deliver(let deliver) = try receiver.next() else {
                throw Peer.Failure.silent
            }
            #expect(deliver.message == body)
        }
        try await test.broker.close()
    }

    @Test(
        "NET-3 OPS-6 a record that was changed on its way ends its connection alone, with an alert")
    func forged() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files, loops: 1)
        let (victim, other) = (try SecurePeer(test), try SecurePeer(test))
        _ = try victim.newDevice()
        _ = try other.newDevice()
        victim.tls.write([1, 2, 3, 4, 5])
        var record = victim.tls.take()
        record[8] ^= 1
        try victim.socket.send(raw: record)
        try victim.waitForEnd()
        try other.roundTrip()
        #expect(test.broker.statistics.secureFailureCount == 1)
        try await test.broker.close()
    }

    @Test(
        "NET-6 OPS-6 an unfinished record is counted like an unfinished frame, and the count returns"
    )
    func unfinished() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files, loops: 1)
        let peer = try SecurePeer(test)
        _ = try peer.newDevice()
        peer.tls.write([UInt8](repeating: 0, count: 3000))
        let record = peer.tls.take()
        try peer.socket.send(raw: Array(record[..<2000]))
        waitUntil { test.broker.statistics.requestBytes >= 2000 }
        peer.socket.close()
        waitUntil { test.broker.statistics.requestBytes == 0 }
        try await test.broker.close()
    }

    // MARK: Ends

    @Test("RFC 8446 §6.1 OPS-6 close_notify of a peer is answered after the last answer")
    func closes() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let peer = try SecurePeer(test)
        _ = try peer.newDevice()
        try peer.send(.ping(Ping(value: 1)))
        peer.tls.close()
        try peer.flush()
        guard case .pong = try peer.next() else { throw Peer.Failure.silent }
        try peer.waitForEnd()
        #expect(test.broker.statistics.truncationCount == 0)
        try await test.broker.close()
    }

    @Test(
        "NET-5 OPS-6 a broker that stops tells peers of TLS to drain, and closes with close_notify")
    func drains() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let peer = try SecurePeer(test)
        _ = try peer.newDevice()
        async let closing: Void = test.broker.close()
        guard case .draining = try peer.next() else { throw Peer.Failure.silent }
        try peer.waitForEnd()
        try await closing
    }

    @Test("OPS-6 a stream that ends without close_notify is counted as cut off")
    func truncated() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let peer = try SecurePeer(test)
        _ = try peer.newDevice()
        peer.socket.finish()
        waitUntil { test.broker.statistics.truncationCount == 1 }
        waitUntil { test.broker.statistics.connectionCount == 0 }
        try await test.broker.close()
    }

    @Test(
        "NET-3 OPS-6 plain text on a TLS port, and a handshake without an end, close their connections"
    )
    func noHandshake() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files) { $0.handshakeSeconds = 1 }
        let plain = try test.peer()
        try plain.send(.ping(Ping(value: 1)))
        #expect(throws: Peer.Failure.self) { while true { _ = try plain.next() } }
        let silent = try test.peer()
        #expect(throws: Peer.Failure.self) { _ = try silent.next() }
        let half = try test.peer()
        let tls = TLSClient(TLSClientContext())
        _ = tls.shake()
        try half.send(raw: Array(tls.take().prefix(100)))
        #expect(throws: Peer.Failure.self) { while true { _ = try half.next() } }
        waitUntil { test.broker.statistics.connectionCount == 0 }
        try await test.broker.close()
    }

    /// Peers that have sent the first record of a handshake.
    private func begun(
        _ count: Int, _ test: TestBroker, from host: UInt8 = 1
    ) throws -> [(peer: Peer, tls: TLSClient)] {
        let settings = TLSClientContext()
        return try (0..<count).map { _ in
            let peer = try test.peer(from: host)
            let tls = TLSClient(settings)
            _ = tls.shake()
            try peer.send(raw: tls.take())
            return (peer, tls)
        }
    }

    @Test("NET-12 of a crowd that comes at once no handshake is thrown away, and all are served")
    func crowd() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files, loops: 1) {
            $0.connectionsPerLoopMax = 4096
            $0.handshakeSeconds = 100
        }
        // More than an address has places for, and than all have.
        var crowd = try begun(800, test) + begun(700, test, from: 2)
        // Some give up before their turn.
        crowd.removeSubrange(750..<780)
        var served: [SecurePeer] = []
        while !crowd.isEmpty {
            crowd = try crowd.filter { (peer, tls) in
                guard peer.hasMore(milliseconds: 0) else { return true }
                served.append(try SecurePeer(peer, tls))
                return false
            }
        }
        waitUntil { test.broker.statistics.handshakeCount == 1470 }
        #expect(test.broker.statistics.turnedAwayCount == 0)
        try await test.broker.close()
    }

    @Test(
        "NET-6 OPS-6 silent handshakes have half of the places, and give them up when others wait")
    func unfinishedHandshakes() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files, loops: 1) {
            $0.connectionsPerLoopMax = 4096
            $0.handshakeSeconds = 100
        }
        // An address has 512 places.
        let silent = try begun(600, test)
        let honest = try SecurePeer(test.peer(from: 2), TLSClient(TLSClientContext()))
        _ = try honest.newDevice()
        try honest.roundTrip()
        // One of the same address waits for its turn, which comes when silent ones end.
        let neighbour = try SecurePeer(test)
        _ = try neighbour.newDevice()
        #expect(test.broker.statistics.turnedAwayCount > 80)
        #expect(throws: Peer.Failure.self) { while true { try silent[0].peer.discard(1) } }
        try await test.broker.close()
    }

    // MARK: Certificates

    @Test("OPS-6 a later connection of a client resumes, over all loops")
    func resumes() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let settings = TLSClientContext()
        for round in 0..<6 {
            let peer = try SecurePeer(test, settings)
            _ = try peer.newDevice()
            try peer.roundTrip()
            #expect(peer.tls.isResumed == (round > 0))
            peer.tls.keepSession()
        }
        let statistics = test.broker.statistics
        #expect(statistics.handshakeCount == 6 && statistics.resumptionCount == 5)
        try await test.broker.close()
    }

    @Test("OPS-11 certificates are read again: new connections get the new one, open ones stay")
    func reloads() async throws {
        let files = try Files()
        defer { files.remove() }
        let test = try await open(files)
        let old = try SecurePeer(test)
        _ = try old.newDevice()
        let fingerprint = try files.write()
        try test.broker.reloadCertificates()
        let new = try SecurePeer(test)
        #expect(new.tls.serverFingerprint == fingerprint)
        #expect(old.tls.serverFingerprint != fingerprint)
        try old.roundTrip()
        // Commands on this machine recognise the broker by the new certificate.
        #expect(ServedAddress(in: test.folder.path)?.fingerprint == fingerprint)
        try "nonsense".write(toFile: files.key, atomically: true, encoding: .utf8)
        #expect(throws: TLSSetupError.self) { try test.broker.reloadCertificates() }
        #expect(try SecurePeer(test).tls.serverFingerprint == fingerprint)
        try old.roundTrip()
        try await test.broker.close()
    }

    @Test("OPS-6 where clients need certificates, one without is refused before HELLO")
    func clientCertificates() async throws {
        let files = try Files()
        defer { files.remove() }
        let authority = try SelfSignedCertificate(names: [], commonName: "till-7")
        let test = try await open(files) {
            $0.tls?.clientAuthorities = .text(authority.certificate)
        }
        let settings = TLSClientContext()
        settings.present(certificate: authority.certificate, key: authority.key)
        let peer = try SecurePeer(test, settings)
        _ = try peer.newDevice()
        try peer.roundTrip()
        // In TLS 1.3 a client learns of the refusal after its own handshake.
        #expect(throws: (any Error).self) {
            let stranger = try SecurePeer(test)
            _ = try stranger.newDevice()
        }
        #expect(test.broker.statistics.handshakeCount == 1)
        try await test.broker.close()
    }

    /// HELLO with a certificate and without a key.
    private func hello(_ project: String = TestBroker.project) -> ClientFrame {
        .hello(.sender(projectID: project, serverKey: ""))
    }

    private func refusal(_ peer: SecurePeer) throws -> ErrorWord? {
        guard case .error(let error) = try peer.next() else { return nil }
        return error.error.word
    }

    @Test("OPS-6 REG-9 a listed certificate stands for a sender, and no longer than it is listed")
    func certificateSender() async throws {
        let files = try Files()
        let list = files.folder.path + ".senders"
        defer {
            files.remove()
            try? FileManager.default.removeItem(atPath: list)
        }
        func write(_ text: String) throws {
            try text.write(toFile: list, atomically: true, encoding: .utf8)
        }
        try write("\(TestBroker.project) CN=till-7\r\nelsewhere CN=till-7\n")
        let authority = try SelfSignedCertificate(names: [], commonName: "till-7")
        let test = try await open(files) {
            $0.tls?.clientAuthorities = .text(authority.certificate)
            $0.tls?.clientSenders = .file(list)
        }
        let settings = TLSClientContext()
        settings.present(certificate: authority.certificate, key: authority.key)
        // A full handshake, then a resumed one.
        var peers: [SecurePeer] = []
        for _ in 0..<2 {
            let peer = try SecurePeer(test, settings)
            try peer.send(hello())
            #expect(try peer.welcome().role == .sender)
            peer.tls.keepSession()
            peers.append(peer)
        }
        // A listed project that does not exist, a project that is not listed, and the administrator.
        for (frame, word) in [
            (hello("elsewhere"), ErrorWord.notFound), (hello("other"), .unauthenticated),
            (.hello(.administrator(administratorKey: "", projectID: "")), .unauthenticated),
            (
                .hello(.sender(projectID: TestBroker.project, serverKey: "x.y")),
                .unauthenticated
            ),
        ] {
            let peer = try SecurePeer(test, settings)
            try peer.send(frame)
            #expect(try refusal(peer) == word)
        }
        // A server key is as good as ever.
        let keyed = try SecurePeer(test, settings)
        try keyed.send(
            .hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        #expect(try keyed.welcome().role == .sender)
        try write("no line")
        #expect(throws: TLSSetupError.self) { try test.broker.reloadCertificates() }
        for peer in peers { try peer.roundTrip() }
        try write("# nobody\n")
        try test.broker.reloadCertificates()
        for peer in peers {
            #expect(try refusal(peer) == .unauthenticated)
            try peer.waitForEnd()
        }
        try keyed.roundTrip()
        let late = try SecurePeer(test, settings)
        try late.send(hello())
        #expect(try refusal(late) == .unauthenticated)
        try await test.broker.close()
    }

    @Test(
        "OPS-6 an expired certificate stands for no sender, and a plain port knows no certificate")
    func certificateExpiry() async throws {
        let files = try Files()
        defer { files.remove() }
        let authority = try SelfSignedCertificate(names: [], commonName: "till-7", days: 1)
        let days = Atomic<Int64>(0)
        let test = try await open(files) {
            $0.tls?.clientAuthorities = .text(authority.certificate)
            $0.tls?.clientSenders = .text("\(TestBroker.project) CN=till-7")
            $0.clock = {
                Instant(
                    millisecondsSince1970: 1000 * Int64(time(nil))
                        + 86_400_000 * days.load(ordering: .relaxed))
            }
        }
        let settings = TLSClientContext()
        settings.present(certificate: authority.certificate, key: authority.key)
        let peer = try SecurePeer(test, settings)
        try peer.send(hello())
        #expect(try peer.welcome().role == .sender)
        days.store(2, ordering: .relaxed)
        #expect(try refusal(peer) == .unauthenticated)
        let late = try SecurePeer(test, settings)
        try late.send(hello())
        #expect(try refusal(late) == .unauthenticated)
        try await test.broker.close()

        let plain = try await TestBroker.open(loops: 1)
        let stranger = try plain.peer()
        try stranger.send(hello())
        guard case .error(let error) = try stranger.next() else {
            Issue.record("ERROR expected")
            return
        }
        #expect(error.error.word == .unauthenticated)
        try await plain.broker.close()
    }

    @Test("OPS-2 a list of senders without authorities, or with a line that is none, is refused")
    func badSenders() throws {
        let files = try Files()
        defer { files.remove() }
        var credentials = files.credentials
        credentials.clientSenders = .text("tides CN=a")
        #expect(throws: TLSSetupError.sendersWithoutAuthorities(place: "The text")) {
            try TLSServer(credentials)
        }
        credentials.clientAuthorities = credentials.certificate
        _ = try TLSServer(credentials)
        for bad in ["tides", "tides ", "CN=a", "tides a"] {
            credentials.clientSenders = .text("# a\n\n\(bad)\n")
            #expect(throws: TLSSetupError.badSenderLine(place: "The text", line: 3)) {
                try TLSServer(credentials)
            }
        }
    }

    @Test("OPS-2 a broker does not open with a certificate that cannot be used")
    func badCertificate() async throws {
        let files = try Files()
        files.remove()
        await #expect(throws: TLSSetupError.self) { try await open(files) }
    }

    @Test("DEV-6 a client's digest of a certificate is libcrypto's, at all lengths around a block")
    func certificateDigest() {
        let abc = CertificateDigest.sha256(Array("abc".utf8))
        #expect(abc.prefix(4) == [0xBA, 0x78, 0x16, 0xBF])
        for count in 0..<260 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ count) }
            #expect(CertificateDigest.sha256(bytes) == SHA256.hash(bytes), "\(count) bytes")
        }
    }
}
