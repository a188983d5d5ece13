// SPDX-License-Identifier: Apache-2.0
//
// When TLS fails, the client says which certificate or port is at fault, and the broker logs a line with the address and
// OpenSSL's reason (OPS-6). Certificates near their end are warned of. Rests on Support and KeptLog.

import Foundation
import Martlet
import MartletClient
import MartletClientTLS
import MartletCrypto
import Testing

@Suite("Failures of TLS in words", .timeLimit(.minutes(3)))
struct SecureFailureTests {
    /// Files that a test writes.
    private struct Files {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "martlet-tls-\(UUID().uuidString)")

        init() throws {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true)
        }

        func write(_ text: String, _ name: String) throws -> String {
            let path = folder.appending(path: name).path
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            return path
        }

        func remove() { try? FileManager.default.removeItem(at: folder) }
    }

    private func waitUntil(_ condition: () -> Bool) {
        for _ in 0..<20_000 where !condition() { usleep(1000) }
        #expect(condition())
    }

    /// What a sender is told that tries to connect; empty: the sender is connected.
    private func told(_ test: TestBroker, _ tls: ClientTLS?) async throws -> String {
        var options = ClientOptions()
        options.attemptsMax = 1
        if let tls { try options.use(tls) }
        do {
            let sender = try await MartletSender.connect(
                host: "127.0.0.1", port: Int(test.broker.port!), projectID: TestBroker.project,
                serverKey: test.serverKey, options: options)
            await sender.close()
            return ""
        } catch let error as MartletError {
            #expect(!error.message.contains(".build") && !error.message.contains("BoringSSL"))
            return error.message
        }
    }

    private static let here = ["DNS:localhost", "IP:127.0.0.1"]

    @Test(
        "OPS-6 the client names the fault of the broker's certificate, and the log of the broker too"
    )
    func certificates() async throws {
        let files = try Files()
        defer { files.remove() }
        let good = try SelfSignedCertificate(names: Self.here)
        let old = try SelfSignedCertificate(names: Self.here, days: -1)
        let other = try SelfSignedCertificate(names: ["DNS:push.example.com"])
        let cases: [(SelfSignedCertificate, ClientTLS.Trust, String, String?)] = [
            (
                old, .authorities(file: try files.write(old.certificate, "old.pem")),
                "The broker's certificate expired on 20", "certificate expired"
            ),
            (good, .system, "of an authority that is not trusted here", "alert"),
            (
                other, .authorities(file: try files.write(other.certificate, "other.pem")),
                "is for push.example.com, not for 127.0.0.1", nil
            ),
            (
                good, .certificate(sha256: old.fingerprint), "another than the known one",
                "alert"
            ),
            // The known certificate decides alone.
            (other, .certificate(sha256: other.fingerprint), "", nil),
        ]
        for (certificate, trust, expected, reason) in cases {
            let log = KeptLog()
            let test = try await TestBroker.open(loops: 1) {
                $0.tls = TLSCredentials(
                    certificate: .text(certificate.certificate), key: .text(certificate.key))
                $0.logger = log.logger()
            }
            let text = try await told(test, ClientTLS(trust: trust))
            #expect(expected.isEmpty ? text.isEmpty : text.contains(expected), "\(text)")
            if let reason {
                waitUntil { log.has("TLS with a peer failed", "from=127.0.0.1", reason) }
                #expect(test.broker.statistics.secureFailureCount > 0)
            }
            try await test.broker.close()
        }
    }

    @Test("OPS-6 the client names a missing and a foreign certificate of its own, and the log too")
    func clientCertificates() async throws {
        let files = try Files()
        defer { files.remove() }
        let good = try SelfSignedCertificate(names: Self.here)
        let foreign = try SelfSignedCertificate(names: [], commonName: "till-7")
        let log = KeptLog()
        let test = try await TestBroker.open(loops: 1) {
            $0.tls = TLSCredentials(
                certificate: .text(good.certificate), key: .text(good.key),
                clientAuthorities: .text(good.certificate))
            $0.logger = log.logger()
        }
        var tls = ClientTLS(trust: .certificate(sha256: good.fingerprint))
        let missing = try await told(test, tls)
        #expect(missing.contains("wants a certificate of the client"), "\(missing)")
        waitUntil { log.has("TLS with a peer failed", "peer did not return a certificate") }
        sleep(1)
        let file = try files.write(foreign.certificate + foreign.key, "foreign.pem")
        tls.certificate = (file, file)
        let refused = try await told(test, tls)
        #expect(refused.contains("refuses the client's certificate"), "\(refused)")
        waitUntil { log.has("TLS with a peer failed", "certificate verify failed (") }
        try await test.broker.close()
    }

    @Test("OPS-6 a client is told whether the port speaks TLS, and a device can ask what is wrong")
    func ports() async throws {
        let good = try SelfSignedCertificate(names: Self.here)
        let secure = try await TestBroker.open(loops: 1) {
            $0.tls = TLSCredentials(certificate: .text(good.certificate), key: .text(good.key))
        }
        let plain = try await TestBroker.open(loops: 1)
        let toSecure = try await told(secure, nil)
        #expect(toSecure.contains("This port speaks TLS"), "\(toSecure)")
        let toPlain = try await told(plain, ClientTLS())
        #expect(toPlain.contains("speaks no TLS"), "\(toPlain)")
        let device = MartletDevice(
            host: "127.0.0.1", port: Int(secure.broker.port!),
            credentials: DeviceCredentials(
                projectID: TestBroker.project, token: "token", deviceKey: "key"))
        let connecting = Task { try await device.connect() }
        for _ in 0..<20_000 where await device.lastFailure == nil { usleep(1000) }
        #expect(await device.lastFailure?.message.contains("speaks TLS") == true)
        await device.close()
        _ = await connecting.result
        try await secure.broker.close()
        try await plain.broker.close()
    }

    @Test("OPS-6 a client's file that cannot be used is named")
    func clientFiles() throws {
        for tls in [
            ClientTLS(trust: .authorities(file: "nowhere.pem")),
            {
                var tls = ClientTLS()
                tls.certificate = ("nowhere.pem", "nowhere.pem")
                return tls
            }(),
        ] {
            var options = ClientOptions()
            let error = #expect(throws: MartletError.self) { try options.use(tls) }
            #expect(error?.message.contains("'nowhere.pem'") == true)
        }
    }

    @Test(
        "OPS-6 OPS-11 an expired certificate is served and warned of, and does not replace a valid one"
    )
    func expired() async throws {
        let files = try Files()
        defer { files.remove() }
        let old = try SelfSignedCertificate(names: Self.here, days: -1)
        let good = try SelfSignedCertificate(names: Self.here)
        let chain = try files.write(old.certificate, "chain.pem")
        let key = try files.write(old.key, "key.pem")
        let log = KeptLog()
        let test = try await TestBroker.open(loops: 1) {
            $0.tls = TLSCredentials(certificate: .file(chain), key: .file(key))
            $0.logger = log.logger()
        }
        waitUntil { log.has("error the certificate has expired", "setting=tls-certificate") }
        // The same files again are no step back.
        try test.broker.reloadCertificates()
        _ = try files.write(good.certificate, "chain.pem")
        _ = try files.write(good.key, "key.pem")
        try test.broker.reloadCertificates()
        _ = try files.write(old.certificate, "chain.pem")
        _ = try files.write(old.key, "key.pem")
        let error = #expect(throws: TLSSetupError.self) { try test.broker.reloadCertificates() }
        #expect(error?.description.contains("and not now") == true)
        let pinned = ClientTLS(trust: .certificate(sha256: good.fingerprint))
        #expect(try await told(test, pinned) == "")
        try await test.broker.close()
    }

    @Test("OPS-6 a certificate is warned of once a day, from two weeks before its end")
    func warnings() {
        let log = KeptLog()
        var watch = CertificateWatch("tls-certificate", log.logger())
        let day: Int64 = 86_400
        let validity = (begin: 10 * day, end: 100 * day)
        // second | lines of the log so far | words of the last line
        let table: [(Int64, Int, String)] = [
            (9 * day, 1, "error the certificate is not valid yet"),
            (9 * day + 3600, 1, "not valid yet"),
            (50 * day, 1, "not valid yet"),
            (86 * day - 1, 1, "not valid yet"),
            (86 * day, 2, "warning the certificate ends soon"),
            (86 * day + 3600, 2, "ends=1970-04-11"),
            (87 * day, 3, "days=13"),
            (100 * day + 1, 4, "error the certificate has expired"),
            (101 * day + 2, 5, "ended=1970-04-11"),
        ]
        for (second, count, words) in table {
            watch.look(validity, at: Instant(millisecondsSince1970: second * 1000))
            #expect(log.all.count == count && log.all.last?.contains(words) == true, "\(second)")
        }
        // Another certificate is warned of at once.
        watch.look(
            (begin: 0, end: 102 * day), at: Instant(millisecondsSince1970: (101 * day + 3) * 1000))
        #expect(log.all.count == 6)
    }
}
