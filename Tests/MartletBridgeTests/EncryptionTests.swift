// SPDX-License-Identifier: Apache-2.0
//
// Encryption to a subscription, against the example of the standard and against a library that reads messages.

import Martlet
import MartletCrypto
import MartletBridge
import Testing

@Suite("GW-11 Encryption of Web Push messages")
struct EncryptionTests {
    private static func bytes(_ text: String) -> [UInt8] { Base64URL.decode(text) ?? [] }

    /// Source: RFC 8291, section 5 and appendix A.
    @Test("GW-11 the example of RFC 8291 is made byte for byte")
    func example() throws {
        let own = try P256Key(scalar: Self.bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
        #expect(
            Base64URL.encode(own.publicKey)
                == "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
        )
        #expect(Base64URL.encode(own.scalar) == "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
        let recipient = try #require(
            PushRecipient(
                publicKey: Self.bytes(
                    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
                ),
                authentication: Self.bytes("BTBZMqHH6r4Tts7J_aSIgg")))
        let body = try PushEncryption.encrypt(
            Array("When I grow up, I want to be a watermelon".utf8), to: recipient, by: own,
            salt: Self.bytes("DGv6ra1nlYgDCS1FRnbzlw"))
        #expect(
            Base64URL.encode(body)
                == "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc"
                + "InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLV"
                + "WGNWQexSgSxsj_Qulcy4a-fN")
    }

    @Test(
        "GW-11 http_ece reads messages of every length, and the longest body has 4096 bytes",
        .enabled(if: PythonPrograms.areInstalled, "make python-sdks installs http_ece"))
    func otherReader() throws {
        var texts: [[UInt8]] = [[], [0], [2, 0, 0], Array("high water".utf8)]
        for count in [1, 15, 16, 17, 255, 256, 3992, 3993] {
            texts.append((0..<count).map { _ in UInt8.random(in: 0...255) })
        }
        #expect(PushEncryption.textBytesMax == 3993)
        var messages: [PythonPrograms.Message] = []
        var bodies: Set<[UInt8]> = []
        for text in texts {
            let keys = try P256Key()
            let authentication = (0..<16).map { _ in UInt8.random(in: 0...255) }
            let recipient = try #require(
                PushRecipient(publicKey: keys.publicKey, authentication: authentication))
            let body = try PushEncryption.encrypt(text, to: recipient)
            #expect(body.count == text.count + 103)
            #expect(try PushEncryption.encrypt(text, to: recipient) != body)
            bodies.insert(body)
            messages.append(
                .init(
                    private: Base64URL.encode(keys.scalar), auth: Base64URL.encode(authentication),
                    body: Base64URL.encode(body)))
        }
        #expect(bodies.map(\.count).max() == 4096)
        #expect(try PythonPrograms.read(messages).messages == texts.map { Base64URL.encode($0) })
    }

    @Test("GW-11 keys that are none are refused")
    func wrongKeys() throws {
        let point = try P256Key().publicKey
        let secret = [UInt8](repeating: 7, count: 16)
        #expect(PushRecipient(publicKey: point, authentication: secret) != nil)
        #expect(PushRecipient(publicKey: point, authentication: Array(secret.dropLast())) == nil)
        for index in [1, 33, 64] {
            var off = point
            off[index] ^= 1
            #expect(PushRecipient(publicKey: off, authentication: secret) == nil, "byte \(index)")
        }
        #expect(PushRecipient(publicKey: [2] + point[1...33], authentication: secret) == nil)
        #expect(PushRecipient(publicKey: [], authentication: secret) == nil)
        #expect(
            PushRecipient(
                publicKey: [4] + [UInt8](repeating: 0, count: 64), authentication: secret) == nil)
        for scalar in [[], [1], [UInt8](repeating: 0, count: 32), .init(repeating: 255, count: 32)]
        {
            #expect(throws: P256Key.Failure.self) { try P256Key(scalar: scalar) }
        }
    }

    @Test(
        "GW-11 py_vapid verifies the tokens, and a token serves for hours",
        .enabled(if: PythonPrograms.areInstalled, "make python-sdks installs py_vapid"))
    func tokens() throws {
        func key() throws -> SigningKey {
            try #require(SigningKey(pkcs8: Array(P256PrivateKey().text.utf8)))
        }
        let signer = PushSigner(try key(), contact: "mailto:ops@example.org")
        let quiet = PushSigner(try key(), contact: nil)
        let now = Instant(millisecondsSince1970: 1_900_000_000_000)
        let origin = "https://push.example.org:8443"
        let first = signer.authorization(for: origin, at: now)
        // Numbers of a signature have leading zeros once in 128 signatures.
        let many = (0..<300).map {
            signer.authorization(for: "https://\($0).example.org", at: now)
        }
        let tokens = [first, quiet.authorization(for: origin, at: now)] + many
        let told = try PythonPrograms.read(tokens: tokens).tokens
        try #require(told.count == 302)
        #expect(told.allSatisfy { $0.header == .init(typ: "JWT", alg: "ES256") })
        #expect(told[0].claims.aud == origin)
        #expect(told[0].claims.sub == "mailto:ops@example.org")
        #expect(told[1].claims.sub == nil)
        #expect(told[0].claims.exp == 1_900_000_000 + 43_200)
        #expect(told[0].key == signer.id)
        #expect(told[5].claims.aud == "https://3.example.org")

        func at(_ seconds: Int64) -> String {
            signer.authorization(for: origin, at: now.advanced(bySeconds: seconds))
        }
        #expect(at(0) == first && at(39_599) == first)
        #expect(at(39_600) != first)
        // A clock that was wrong by years leaves no token that expires too far ahead.
        #expect(at(-86_400 * 365) != first)
    }
}
