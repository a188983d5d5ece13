// SPDX-License-Identifier: Apache-2.0
//
// Handshakes with OpenSSL's client, and the switch from OpenSSL's record layer to ours (OPS-6). Rests on TLSPeer.

import COpenSSL
import MartletCrypto
import Synchronization
import TLSPeers
import Testing

@Suite("TLS: handshakes")
struct HandshakeTests {
    private static let suites: [(String, TLSCipherSuite)] = [
        ("TLS_AES_128_GCM_SHA256", .aes128GCM), ("TLS_AES_256_GCM_SHA384", .aes256GCM),
        ("TLS_CHACHA20_POLY1305_SHA256", .chaCha20Poly1305),
    ]

    private func talk(_ made: Established, _ count: Int = 40_000) throws {
        let text = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        made.client.write(text)
        #expect(try made.server.open(made.rest + made.client.take()) == text)
        made.client.give(made.server.seal(text))
        #expect(made.client.read() == text)
    }

    @Test("OPS-6 after a handshake both sides read each other, with each cipher", arguments: suites)
    func ciphers(name: String, suite: TLSCipherSuite) throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        for _ in 0..<20 {
            let made = try shakeHands(context, TLSClientContext(ciphers: name))
            #expect(made.server.session.pointee.suite == suite)
            #expect(!made.isResumed)
            try talk(made)
        }
    }

    @Test(
        "OPS-6 certificate and key are read with any line ends, and the first one behind a byte-order mark",
        arguments: ["\u{FEFF}", ""], ["\n", "\r\n", "\r"])
    func edited(mark: String, end: String) throws {
        let (first, other) = try (
            SelfSignedCertificate(names: ["DNS:localhost"]),
            SelfSignedCertificate(names: ["DNS:elsewhere"])
        )
        func edited(_ text: String) -> TLSCredentials.Source {
            .text(mark + text.replacing("\n", with: end))
        }
        let context = try TLSServerContext(
            TLSCredentials(
                certificate: edited(first.certificate + other.certificate), key: edited(first.key)),
            ticketKeys: TLSTicketKeys())
        try talk(try shakeHands(context, TLSClientContext()), 100)
    }

    @Test("OPS-6 both groups work, and a client with a wrong guess is asked again")
    func groups() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        for groups in ["X25519", "P-256", "P-384:X25519"] {
            try talk(try shakeHands(context, TLSClientContext(groups: groups)))
        }
    }

    @Test("OPS-6 a handshake in pieces of any size succeeds")
    func pieces() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        for chunkBytes in [1, 2, 3, 5, 7, 100] {
            try talk(try shakeHands(context, TLSClientContext(), chunkBytes: chunkBytes), 100)
        }
    }

    @Test("OPS-6 data behind the last flight is not lost, wherever the chunk ends")
    func early() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        for chunkBytes in [Int.max, 1, 60, 75] {
            let made = try shakeHands(
                context, TLSClientContext(), chunkBytes: chunkBytes, early: [1, 2, 3])
            #expect(try made.server.open(made.rest) == [1, 2, 3])
            try talk(
                Established(
                    client: made.client, server: made.server, isResumed: false, clientName: nil,
                    rest: []))
        }
    }

    @Test("OPS-6 a ticket resumes the session, with a context of reloaded certificates too")
    func resumption() throws {
        let keys = TLSTicketKeys()
        let credentials = try makeCredentials()
        let settings = TLSClientContext()
        for count in 0..<4 {
            let context = try TLSServerContext(credentials, ticketKeys: keys)
            let made = try shakeHands(context, settings)
            #expect(made.isResumed == (count > 0))
            try talk(made)
            made.client.keepSession()
        }
    }

    @Test("OPS-6 ticket keys rotate: a ticket is good until its key has been replaced twice")
    func rotation() throws {
        let now = Clock()
        let keys = TLSTicketKeys { now.seconds.load(ordering: .relaxed) }
        let context = try TLSServerContext(makeCredentials(), ticketKeys: keys)
        func isResumed(after seconds: Int64) throws -> Bool {
            now.seconds.store(0, ordering: .relaxed)
            let settings = TLSClientContext()
            let first = try shakeHands(context, settings)
            try talk(first)
            first.client.keepSession()
            now.seconds.add(seconds, ordering: .relaxed)
            return try shakeHands(context, settings).isResumed
        }
        let life = TLSLimits.ticketKeySeconds
        #expect(try isResumed(after: life - 1))
        let second = TLSTicketKeys { now.seconds.load(ordering: .relaxed) }
        now.seconds.store(0, ordering: .relaxed)
        let other = try TLSServerContext(makeCredentials(), ticketKeys: second)
        let settings = TLSClientContext()
        let first = try shakeHands(other, settings)
        try talk(first)
        first.client.keepSession()
        now.seconds.store(life + 1, ordering: .relaxed)
        #expect(try shakeHands(other, settings).isResumed)
        now.seconds.store(3 * life, ordering: .relaxed)
        #expect(try !shakeHands(other, settings).isResumed)
    }

    final class Clock: Sendable {
        let seconds = Atomic<Int64>(0)
    }

    @Test("OPS-6 ALPN: our name or none; another protocol is refused")
    func alpn() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let settings = TLSClientContext()
        settings.protocols = Array("\u{2}h2\u{7}martlet".utf8)
        let made = try shakeHands(context, settings)
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(made.client.ssl, &name, &count)
        #expect(UnsafeBufferPointer(start: name, count: Int(count)).elementsEqual("martlet".utf8))
        try talk(made)
        settings.protocols = Array("\u{2}h2".utf8)
        let failure = #expect(throws: HandshakeFailure.self) { try shakeHands(context, settings) }
        // RFC 7301 §3.2: alert 120, no_application_protocol.
        #expect(failure?.output.suffix(2) == [2, 120])
    }

    @Test("OPS-6 TLS 1.2 is refused with an alert")
    func oldVersion() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let settings = TLSClientContext()
        let failure = #expect(throws: HandshakeFailure.self) {
            // SSL_CTRL_SET_MAX_PROTO_VERSION is 124, TLS 1.2 is 0x0303.
            try shakeHands(context, settings) { SSL_ctrl($0.ssl, 124, 0x0303, nil) }
        }
        // Alert 70, protocol_version.
        #expect(failure?.output.suffix(2) == [2, 70])
    }

    @Test(
        "OPS-6 with authorities a client needs a certificate, and its name is known; after resumption too"
    )
    func clientCertificate() throws {
        let client = try SelfSignedCertificate(names: [], commonName: "till-7, north")
        var credentials = try makeCredentials()
        credentials.clientAuthorities = .text(client.certificate)
        let context = try TLSServerContext(credentials, ticketKeys: TLSTicketKeys())
        let settings = TLSClientContext()
        settings.present(certificate: client.certificate, key: client.key)
        for count in 0..<2 {
            let made = try shakeHands(context, settings)
            #expect(made.clientName == "CN=till-7\\, north")
            #expect(made.isResumed == (count == 1))
            try talk(made)
            made.client.keepSession()
        }
        #expect(throws: HandshakeFailure.self) { try shakeHands(context, TLSClientContext()) }
        let stranger = TLSClientContext()
        let forged = try SelfSignedCertificate(names: [], commonName: "till-7, north")
        stranger.present(certificate: forged.certificate, key: forged.key)
        #expect(throws: HandshakeFailure.self) { try shakeHands(context, stranger) }
    }

    @Test("OPS-6 a ticket does not outlive the authorities of its client's certificate")
    func changedAuthorities() throws {
        let client = try SelfSignedCertificate(names: [], commonName: "till-7")
        let keys = TLSTicketKeys()
        var credentials = try makeCredentials()
        credentials.clientAuthorities = .text(client.certificate)
        let settings = TLSClientContext()
        settings.present(certificate: client.certificate, key: client.key)
        let first = try shakeHands(
            try TLSServerContext(credentials, ticketKeys: keys), settings)
        try talk(first)
        first.client.keepSession()
        let other = try SelfSignedCertificate(names: [], commonName: "another authority")
        credentials.clientAuthorities = .text(other.certificate)
        let changed = try TLSServerContext(credentials, ticketKeys: keys)
        #expect(throws: HandshakeFailure.self) { try shakeHands(changed, settings) }
    }

    @Test("OPS-6 a client that asks for short records gets them")
    func shortRecords() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let made = try shakeHands(context, TLSClientContext()) {
            SSL_set_tlsext_max_fragment_length($0.ssl, 1)
        }
        let sealed = made.server.seal([UInt8](repeating: 1, count: 1200))
        #expect(Int(sealed[3]) << 8 | Int(sealed[4]) == 512 + 1 + 16)
        made.client.give(sealed)
        #expect(made.client.read().count == 1200)
        try talk(made)
    }

    @Test("OPS-6 bytes that are no handshake fail and get an alert")
    func nonsense() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let handshake = TLSHandshake(context)
        Array("GET / HTTP/1.1\r\n\r\n".utf8).withUnsafeBytes { handshake.receive($0) }
        guard case .failed(let error) = handshake.step() else {
            Issue.record("no failure")
            return
        }
        #expect(error.description == "TLS handshake: http request")
    }

    @Test("OPS-2 certificates that cannot be used are refused with their place")
    func badCredentials() throws {
        let keys = TLSTicketKeys()
        let one = try SelfSignedCertificate(names: ["DNS:localhost"])
        let other = try SelfSignedCertificate(names: ["DNS:localhost"])
        func error(_ certificate: TLSCredentials.Source, _ key: TLSCredentials.Source) -> String? {
            do throws(TLSSetupError) {
                _ = try TLSServerContext(
                    TLSCredentials(certificate: certificate, key: key), ticketKeys: keys)
                return nil
            } catch { return error.description }
        }
        #expect(
            error(.file("/nowhere"), .text(one.key))
                == "/nowhere cannot be read (No such file or directory). Check the path and the rights of the broker's user."
        )
        #expect(error(.text("x"), .text(one.key))?.contains("has no certificate") == true)
        #expect(error(.text(one.certificate), .text("x"))?.contains("no private key") == true)
        #expect(
            error(.text(one.certificate), .text(other.key))?.contains("is not the key") == true)
    }
}
