// SPDX-License-Identifier: Apache-2.0
//
// The record layer against RFC 8446, against traces of others, against OpenSSL's client, and with hostile bytes (OPS-6). Rests
// on TLSPeer.

import COpenSSL
import Glibc
import MartletCrypto
import TLSPeers
import TestSupport
import Testing

@Suite("TLS: records")
struct RecordTests {
    /// RFC 8448 §3: the secrets and records of a simple handshake's data.
    @Test("RFC 8448 §3: the trace's records are opened and sealed byte for byte")
    func trace() throws {
        let client = bytes("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
        let server = bytes("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")
        let text = (0..<50).map { UInt8($0) }
        let fromClient = bytes(
            """
            17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa
            66 bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2
            97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4
            """)
        let fromServer = bytes(
            """
            17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f
            82 aa 1b 36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2
            1c 00 47 c2 ab f3 32 54 0d d0 32 e1 67 c2 95 5d
            """)
        // The server's first record was a ticket.
        let session = TestSession(
            makeSecrets(.aes128GCM, receiving: client, sending: server, sentRecords: 1))
        #expect(try session.open(fromClient) == text)
        #expect(session.seal(text) == fromServer)
        // RFC 8448 §3: the alerts that end both sides.
        #expect(
            try session.open(
                bytes("17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3"))
                == [])
        #expect(session.hasPeerClosed)
        #expect(
            session.alert(.closeNotify)
                == bytes("17 03 03 00 13 b5 8f d6 71 66 eb f5 99 d2 47 20 cf be 7e fa 7a 88 64 a9"))
    }

    @Test(
        "OPS-6 records cut at every byte, and in random pieces, bring the same data",
        arguments: TLSCipherSuite.allCases)
    func fragmentation(suite: TLSCipherSuite) throws {
        let text = (0..<300).map { UInt8(truncatingIfNeeded: $0) }
        let length = SessionPair(suite).one.seal(text).count
        for cut in 0...length {
            let pair = SessionPair(suite)
            let sealed = pair.one.seal(text)
            #expect(
                try pair.other.open(Array(sealed[..<cut])) + pair.other.open(Array(sealed[cut...]))
                    == text)
            #expect(pair.other.session.pointee.keptBytes == 0 || cut == length || cut > 0)
        }
        var random = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let pair = SessionPair(suite)
            let pieces = (0..<Int.random(in: 1...5, using: &random)).map { _ in
                [UInt8](repeating: 7, count: Int.random(in: 1...40_000, using: &random))
            }
            var sealed = pair.one.seal(pieces)[...]
            var plain: [UInt8] = []
            while !sealed.isEmpty {
                let count = Int.random(in: 1...3000, using: &random)
                plain += try pair.other.open(Array(sealed.prefix(count)))
                sealed = sealed.dropFirst(count)
            }
            #expect(plain == pieces.flatMap { $0 })
        }
    }

    @Test("OPS-6 an unfinished record is kept byte for byte, and its memory is free after its end")
    func partial() throws {
        let pair = SessionPair()
        let sealed = pair.one.seal([UInt8](repeating: 1, count: 1000))
        _ = try pair.other.open(Array(sealed[..<700]))
        #expect(pair.other.session.pointee.keptBytes == 700)
        #expect(try pair.other.open(Array(sealed[700...])).count == 1000)
        #expect(pair.other.session.pointee.keptBytes == 0)
    }

    @Test(
        "OPS-6 KEY UPDATE goes both ways with OpenSSL, in the middle of data",
        arguments: [
            "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
        ])
    func keyUpdate(cipher: String) throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let made = try shakeHands(context, TLSClientContext(ciphers: cipher))
        let (client, server) = (made.client, made.server)
        for round in 0..<20 {
            let text = [UInt8](repeating: UInt8(round), count: 100 + round)
            client.updateKey(asking: round % 3 == 0)
            client.write(text)
            #expect(try server.open(client.take()) == text)
            #expect(server.session.pointee.owesKeyUpdate == (round % 3 == 0))
            let answer = server.changeKeyIfDue()
            #expect(answer.isEmpty == (round % 3 != 0))
            client.give(answer + server.seal(text))
            #expect(client.read() == text)
            if round % 4 == 0 {
                client.give(server.changeKey(asking: true) + server.seal([9]))
                #expect(client.read() == [9])
                client.write([8])
                #expect(try server.open(client.take()) == [8])
            }
        }
    }

    @Test(
        "RFC 8446 §5.5: a key is changed before its last record, and the peer is asked to change its own"
    )
    func recordLimit() throws {
        let pair = SessionPair(.aes128GCM, recordsPerKeyMax: 8)
        for round in 0..<100 {
            let text = [UInt8](repeating: UInt8(round), count: 20)
            let sealed = pair.one.seal(text)
            #expect(try pair.other.open(sealed) == text)
        }
        // A sender that never changes its key is asked after as many records.
        let secret = [UInt8](repeating: 1, count: 32)
        let stubborn = TestSession(makeSecrets(.aes128GCM, receiving: secret, sending: secret))
        let asking = TestSession(
            makeSecrets(.aes128GCM, receiving: secret, sending: secret), recordsPerKeyMax: 8)
        for _ in 0..<8 { _ = try asking.open(stubborn.seal([1])) }
        #expect(asking.changeKeyIfDue().isEmpty)
        _ = try asking.open(stubborn.seal([1]))
        let update = asking.changeKeyIfDue()
        #expect(!update.isEmpty)
        _ = try stubborn.open(update)
        #expect(stubborn.session.pointee.owesKeyUpdate)
    }

    @Test("OPS-6 many records in one send change keys in between")
    func longSend() throws {
        let pair = SessionPair(.chaCha20Poly1305, recordsPerKeyMax: 4)
        let text = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 / 3) }
        #expect(try pair.other.open(pair.one.seal(text)) == text)
    }

    // MARK: Ends

    @Test("RFC 8446 §6.1: close_notify goes both ways, and what follows it is ignored")
    func closing() throws {
        let context = try TLSServerContext(makeCredentials(), ticketKeys: TLSTicketKeys())
        let made = try shakeHands(context, TLSClientContext())
        made.client.write([1, 2])
        made.client.close()
        #expect(try made.server.open(made.client.take() + [1, 2, 3]) == [1, 2])
        #expect(made.server.hasPeerClosed)
        #expect(try made.server.open([4, 5, 6]) == [])
        made.client.give(made.server.seal([3]) + made.server.alert(.closeNotify))
        #expect(made.client.read() == [3])
        #expect(made.client.hasServerClosed)
        #expect(made.server.alert(.closeNotify) == [])
    }

    @Test("RFC 8446 §6.2: an error alert of the peer ends the session")
    func peerAlert() throws {
        let pair = SessionPair()
        let alert = pair.one.alert(.decodeError)
        let error = #expect(throws: PeerAlert.self) { _ = try pair.other.open(alert) }
        #expect(error?.number == TLSAlert.decodeError.rawValue)
        #expect(pair.other.alert(.closeNotify) == [])
    }

    // MARK: Refused records

    /// Content that one side seals by hand, with the receiver's verdict.
    @Test("RFC 8446 §4.6.3, §5: messages that no client sends after its handshake end the session")
    func refusedContents() throws {
        let secret = [UInt8](repeating: 1, count: 32)
        func verdict(_ contents: [(UInt8, [UInt8])]) -> TLSAlert? {
            let session = TestSession(makeSecrets(.aes128GCM, receiving: secret, sending: secret))
            do {
                for (number, content) in contents.enumerated() {
                    _ = try session.open(
                        sealByHand(
                            secret, sequence: UInt64(number), content.1 + [content.0]))
                }
            } catch { return error as? TLSAlert }
            return nil
        }
        #expect(verdict([(22, [24, 0, 0, 1])]) == nil)
        #expect(verdict([(22, [24, 0]), (22, [0, 1]), (22, [0])]) == nil)
        #expect(verdict([(22, [24, 0]), (23, [0, 1])]) == .unexpectedMessage)
        #expect(verdict([(22, [24, 0]), (21, [1, 0])]) == .unexpectedMessage)
        #expect(verdict([(22, [24, 0, 0, 1, 2])]) == .illegalParameter)
        #expect(verdict([(22, [24, 0, 0, 2, 0, 0])]) == .decodeError)
        #expect(verdict([(22, [24, 0, 0, 1, 0, 24])]) == .unexpectedMessage)
        #expect(verdict([(22, [4, 0, 0, 1, 0])]) == .unexpectedMessage)
        #expect(verdict([(22, [])]) == .unexpectedMessage)
        #expect(verdict([(21, [])]) == .unexpectedMessage)
        #expect(verdict([(21, [1, 0, 0])]) == .decodeError)
        #expect(verdict([(21, [1, 90]), (21, [1, 0])]) == nil)
        #expect(verdict([(20, [1])]) == .unexpectedMessage)
        #expect(verdict([(24, [1])]) == .unexpectedMessage)
        #expect(verdict([(0, [0, 0, 0])]) == .unexpectedMessage)
        #expect(verdict([(23, [])]) == nil)
        #expect(
            verdict(Array(repeating: (UInt8(23), []), count: TLSLimits.recordsWithoutDataMax + 1))
                == .unexpectedMessage)
        #expect(
            verdict(Array(repeating: (UInt8(23), []), count: TLSLimits.recordsWithoutDataMax))
                == nil)
        #expect(verdict([(23, [UInt8](repeating: 1, count: 16_384))]) == nil)
        #expect(verdict([(23, [UInt8](repeating: 1, count: 16_385))]) == .recordOverflow)
        // Padding counts (§5.4), and is taken off.
        #expect(verdict([(0, [1, 2, 23] + [UInt8](repeating: 0, count: 16_381))]) == nil)
        #expect(
            verdict([(0, [1, 2, 23] + [UInt8](repeating: 0, count: 16_382))]) == .recordOverflow)
    }

    /// A record sealed by OpenSSL alone.
    private func sealByHand(_ secret: [UInt8], sequence: UInt64, _ inner: [UInt8]) -> [UInt8] {
        func expand(_ label: String, _ count: Int) -> [UInt8] {
            var info: [UInt8] = [0, UInt8(count), UInt8(6 + label.utf8.count)]
            info += Array("tls13 \(label)".utf8) + [0, 1]
            var output = [UInt8](repeating: 0, count: 32)
            HMAC(EVP_sha256(), secret, 32, info, info.count, &output, nil)
            return Array(output[..<count])
        }
        var nonce = expand("iv", 12)
        for index in 0..<8 {
            nonce[4 + index] ^= UInt8(truncatingIfNeeded: sequence >> UInt64(56 - 8 * index))
        }
        let length = inner.count + 16
        let header: [UInt8] = [23, 3, 3, UInt8(length >> 8), UInt8(length & 255)]
        var sealed = [UInt8](repeating: 0, count: inner.count)
        var tag = [UInt8](repeating: 0, count: 16)
        let context = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(context) }
        var count: Int32 = 0
        EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nil, expand("key", 16), nonce)
        EVP_EncryptUpdate(context, nil, &count, header, 5)
        EVP_EncryptUpdate(context, &sealed, &count, inner, Int32(inner.count))
        EVP_EncryptFinal_ex(context, &tag, &count)
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, &tag)
        return header + sealed + tag
    }

    @Test(
        "RFC 8446 §5.1: headers of other types and lengths past the bound are refused before any byte is kept"
    )
    func refusedHeaders() {
        func verdict(_ header: [UInt8]) -> TLSAlert? {
            let session = SessionPair().one
            do { _ = try session.open(header) } catch { return error as? TLSAlert }
            return nil
        }
        #expect(verdict([20, 3, 3, 0, 1, 1]) == .unexpectedMessage)
        #expect(verdict([21, 3, 3, 0, 2, 2, 40]) == .unexpectedMessage)
        #expect(verdict([22, 3, 3, 0, 2, 2, 40]) == .unexpectedMessage)
        #expect(verdict([23, 3, 3, 0x41, 1]) == .recordOverflow)
        #expect(verdict([23, 3, 3, 0x41, 0]) == nil)
        #expect(verdict([23, 3, 3, 0, 15] + [UInt8](repeating: 0, count: 15)) == .badRecordMAC)
        #expect(verdict([23, 3, 3, 0, 0]) == .badRecordMAC)
        // The version has no meaning.
        #expect(verdict([23, 9, 9, 0x41, 0]) == nil)
    }

    // MARK: Hostile bytes

    @Test("OPS-6 mutated records bring no byte that was not sent, and never crash")
    func fuzz() {
        let count =
            getenv("MARTLET_TLS_RECORDS").flatMap { Int(String(cString: $0)) } ?? rounds(20_000)
        var random = SystemRandomNumberGenerator()
        var refusedCount = 0
        let pair = SessionPair()
        for round in 0..<count {
            pair.restart(TLSCipherSuite.allCases[round % 3])
            let texts = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                (0..<Int.random(in: 1...200, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
            }
            var stream = texts.flatMap { pair.one.seal($0) }
            let original = stream
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                stream[Int.random(in: 0..<stream.count, using: &random)] ^=
                    UInt8(1) << Int.random(in: 0..<8, using: &random)
            case 1: stream.remove(at: Int.random(in: 0..<stream.count, using: &random))
            case 2:
                stream.insert(
                    UInt8.random(in: 0...255, using: &random),
                    at: Int.random(in: 0...stream.count, using: &random))
            default:
                // A record comes twice.
                stream.insert(contentsOf: original, at: 0)
            }
            let expected = texts.flatMap { $0 }
            var plain: [UInt8] = []
            var rest = stream[...]
            do {
                while !rest.isEmpty {
                    let byteCount = Int.random(in: 1...300, using: &random)
                    plain += try pair.other.open(Array(rest.prefix(byteCount)))
                    rest = rest.dropFirst(byteCount)
                }
            } catch {
                refusedCount += 1
            }
            #expect(expected.starts(with: plain))
        }
        #expect(refusedCount > count / 2)
    }
}
