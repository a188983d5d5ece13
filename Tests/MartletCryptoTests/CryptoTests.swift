// SPDX-License-Identifier: Apache-2.0
//
// Digests, codes and keys, against the vectors of their standards. Rests on MartletCrypto.

import MartletBase
import MartletCrypto
import Testing

@Suite("Digests, codes and keys")
struct CryptoTests {
    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Source: FIPS 180-2, appendix B, and the digest of nothing.
    @Test(
        "A digest is the standard's",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ])
    func digests(text: String, digest: String) {
        let bytes = Array(text.utf8)
        #expect(hexadecimal(SHA256.hash(bytes)) == digest)
        for cut in 0...bytes.count {
            var parts = SHA256()
            parts.update(Array(bytes[..<cut]))
            parts.update(Array(bytes[cut...]))
            #expect(hexadecimal(parts.finish()) == digest, "cut after \(cut)")
        }
    }

    /// Source: RFC 7914, section 12, the first 32 of 64 bytes: the bytes are those of one block of PBKDF2.
    @Test("The digest of a password is the standard's")
    func passwords() throws {
        let salt = Array("SodiumChloride".utf8)
        let digest = try #require(Scrypt.hash("pleaseletmein", salt: salt, cost: 14))
        #expect(
            hexadecimal(digest)
                == "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2")
        #expect(Scrypt.isEqual(digest, digest) && !Scrypt.isEqual(digest, Array(digest.dropLast())))
        #expect(Scrypt.hash("a", salt: salt, cost: 30) == nil)
    }

    @Test("A long digest is the standard's")
    func longDigest() {
        var hash = SHA256()
        for _ in 0..<1000 { hash.update([UInt8](repeating: UInt8(ascii: "a"), count: 1000)) }
        #expect(
            hexadecimal(hash.finish())
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    /// Source: RFC 4231, sections 4.2, 4.3 and 4.7.
    @Test(
        "A code is the standard's, and no other code is taken for it",
        arguments: [
            (
                [UInt8](repeating: 0x0B, count: 20), "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
        ])
    func codes(secret: [UInt8], text: String, expected: String) {
        let key = AuthenticationKey(secret)
        let message = Array(text.utf8)
        var code = key.code(of: message)
        #expect(hexadecimal(code) == expected)
        #expect(key.isCode(code, of: message))
        #expect(!key.isCode(Array(code.dropLast()), of: message))
        #expect(!key.isCode(code + [0], of: message))
        #expect(!key.isCode([], of: message))
        #expect(!key.isCode(code, of: message + [0]))
        #expect(!AuthenticationKey(secret + [1]).isCode(code, of: message))
        code[31] ^= 1
        #expect(!key.isCode(code, of: message))
    }

    /// A key that no other place uses.
    private static let signingKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgMuqltCMm2NCbyfOr
        jHlQ1w/Ac6D3BHWd7MFs1iOcUtGhRANCAATUdRzjDQKDnzwYMccI6E+RjfvtEARQ
        9Miqs255a7FIqhmo0qOdIwhFRMpBqwU8rZmLRrHKfNPKjTwNQaY5xqO0
        -----END PRIVATE KEY-----
        """

    @Test("GW-11 a private key is read whatever the length of its text")
    func signingKeys() {
        for emptyLines in 0..<600 {
            let lines = [UInt8](repeating: UInt8(ascii: "\n"), count: emptyLines)
            let text = lines + Self.signingKey.utf8
            #expect(SigningKey(pkcs8: text) != nil, "\(text.count) bytes")
        }
    }

    @Test("GW-11 a private key is read with any line ends, and behind a byte-order mark")
    func editedSigningKeys() {
        for mark in ["", "\u{FEFF}"] {
            for end in ["\n", "\r\n", "\r"] {
                let text = mark + Self.signingKey.replacing("\n", with: end)
                #expect(SigningKey(pkcs8: Array(text.utf8)) != nil, "\(text.debugDescription)")
            }
        }
    }

    @Test("An empty secret makes codes")
    func emptySecret() {
        let key = AuthenticationKey([])
        #expect(key.isCode(key.code(of: [1, 2, 3]), of: [1, 2, 3]))
    }

    @Test("A new pair of keys is RSA with 2048 bits, and no other pair")
    func keyPairs() throws {
        let (first, second) = (try RSAKeyPair(), try RSAKeyPair())
        #expect(first.publicKey != second.publicKey)
        #expect(first.privateKey != second.privateKey)
        #expect(first.privateKey.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(first.privateKey.hasSuffix("\n-----END PRIVATE KEY-----\n"))
        _ = try VerificationKey(validating: first.publicKey, for: .rs256)
    }
}
