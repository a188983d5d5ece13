// SPDX-License-Identifier: Apache-2.0
//
// Signatures of the standard's own examples. Rests on MartletCrypto.
// Source: RFC 7515, appendices A.1 (HS256), A.2 (RS256) and A.3 (ES256).

import MartletBase
import MartletCrypto
import Testing

/// The examples of RFC 7515 sign this payload, with a header for each algorithm.
enum Example {
    static let payload =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

    struct Signed: Sendable, CustomTestStringConvertible {
        let algorithm: TicketAlgorithm
        let header: String
        let signature: String
        let material: [UInt8]

        var testDescription: String { algorithm.name }
        var text: String { "\(header).\(payload).\(signature)" }
        var message: [UInt8] { Array("\(header).\(payload)".utf8) }
        var signatureBytes: [UInt8] { Base64URL.decode(signature)! }
        var key: VerificationKey { VerificationKey(algorithm, material: material) }
    }

    static let hs256 = Signed(
        algorithm: .hs256, header: "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
        signature: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        material: Base64URL.decode(
            "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
        )!)

    static let rs256 = Signed(
        algorithm: .rs256, header: "eyJhbGciOiJSUzI1NiJ9",
        signature:
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7"
            + "AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4"
            + "BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K"
            + "0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqv"
            + "hJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB"
            + "p0igcN_IoypGlUPQGe77Rw",
        material: rsaKey(
            modulus: Base64URL.decode(
                "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp"
                    + "-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOW"
                    + "vG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUs"
                    + "LA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9k"
                    + "G4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2"
                    + "PAcDTW9gb54h4FRWyuXpoQ")!))

    static let es256 = Signed(
        algorithm: .es256, header: "eyJhbGciOiJFUzI1NiJ9",
        signature:
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
            + "pmWQxfKTUJqPP3-Kg6NU1Q",
        material: p256Key(
            x: Base64URL.decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")!,
            y: Base64URL.decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")!))

    /// A value in DER.
    static func der(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        switch count {
        case ..<128: return [tag, UInt8(count)] + content
        case ..<256: return [tag, 0x81, UInt8(count)] + content
        default: return [tag, 0x82, UInt8(count >> 8), UInt8(count & 255)] + content
        }
    }

    /// SubjectPublicKeyInfo of an RSA key with the exponent 65537.
    static func rsaKey(modulus: [UInt8]) -> [UInt8] {
        let algorithm: [UInt8] = [
            0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
        ]
        let key = der(0x30, der(0x02, [0] + modulus) + der(0x02, [1, 0, 1]))
        return der(0x30, der(0x30, algorithm) + der(0x03, [0] + key))
    }

    /// SubjectPublicKeyInfo of a key on P-256.
    static func p256Key(x: [UInt8], y: [UInt8]) -> [UInt8] {
        let algorithm: [UInt8] = [
            0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
            0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
        ]
        return der(0x30, der(0x30, algorithm) + der(0x03, [0, 4] + x + y))
    }
}

@Suite("Signatures of tickets")
struct SignatureTests {
    static let examples = [Example.hs256, Example.rs256, Example.es256]

    @Test("REG-7: the standard's examples verify", arguments: examples)
    func verify(_ example: Example.Signed) throws {
        let key = try VerificationKey(validating: example.material, for: example.algorithm)
        #expect(key.verifies(example.signatureBytes, over: example.message))
        let ticket = try Ticket(parsing: example.text)
        #expect(ticket.algorithm == example.algorithm)
        #expect(ticket.verifies(with: key))
    }

    @Test(
        "REG-7: a changed byte of message or signature, and a shorter or longer signature, do not verify",
        arguments: examples)
    func damage(_ example: Example.Signed) {
        let (key, signature, message) = (example.key, example.signatureBytes, example.message)
        for index in stride(from: 0, to: signature.count, by: 7) {
            var other = signature
            other[index] ^= 1
            #expect(!key.verifies(other, over: message))
        }
        for index in stride(from: 0, to: message.count, by: 11) {
            var other = message
            other[index] ^= 1
            #expect(!key.verifies(signature, over: other))
        }
        #expect(!key.verifies(signature.dropLast(), over: message))
        #expect(!key.verifies(signature + [0], over: message))
        #expect(!key.verifies([], over: message))
        #expect(!key.verifies([UInt8](repeating: 0, count: signature.count), over: message))
    }

    @Test("REG-7: a key verifies no ticket of another algorithm", arguments: examples)
    func algorithms(_ example: Example.Signed) throws {
        let ticket = try Ticket(parsing: example.text)
        for algorithm in TicketAlgorithm.allCases where algorithm != example.algorithm {
            #expect(!ticket.verifies(with: VerificationKey(algorithm, material: example.material)))
        }
    }

    @Test("REG-7: a public key is no secret: a ticket signed by HMAC with its bytes is refused")
    func confusion() throws {
        let key = Example.rs256.key
        // HS256 over the DER of the public key, as a forger has it.
        let forged = try Ticket(parsing: Example.hs256.text)
        #expect(!forged.verifies(with: key))
    }

    @Test("REG-7: a secret is long enough, and a public key is one of the algorithm")
    func keys() {
        func isTaken(_ material: [UInt8], _ algorithm: TicketAlgorithm) -> Bool {
            (try? VerificationKey(validating: material, for: algorithm)) != nil
        }
        #expect(!isTaken([UInt8](repeating: 7, count: 31), .hs256))
        #expect(isTaken([UInt8](repeating: 7, count: 32), .hs256))
        #expect(!isTaken([UInt8](repeating: 7, count: 2049), .hs256))
        #expect(!isTaken(Example.es256.material, .rs256))
        #expect(!isTaken(Example.rs256.material, .es256))
        #expect(!isTaken(Example.rs256.material + [0], .rs256))
        #expect(!isTaken(Example.rs256.material.dropLast(), .rs256))
        #expect(!isTaken([], .rs256))
        let short = Example.rsaKey(modulus: [UInt8](repeating: 0xFF, count: 128))
        #expect(!isTaken(short, .rs256))
    }

    @Test("A public key in text is read as editors write it, and nothing else is")
    func text() throws {
        let der = Example.es256.material
        var base64 = ""
        for character in Base64URL.encode(der) {
            base64.append(character == "-" ? "+" : character == "_" ? "/" : character)
        }
        while base64.count % 4 != 0 { base64.append("=") }
        let middle = base64.index(base64.startIndex, offsetBy: 64)
        for (mark, end) in [("", "\n"), ("", "\r\n"), ("", "\r"), ("\u{FEFF}", "\r\n")] {
            let text =
                "\(mark)-----BEGIN PUBLIC KEY-----\(end)\(base64[..<middle])\(end)\(base64[middle...])"
                + "\(end)-----END PUBLIC KEY-----\(end)"
            #expect(try PublicKeyText.der(text) == der)
        }
        for text in ["", base64, "-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----"] {
            #expect(throws: MartletError.self) { try PublicKeyText.der(text) }
        }
    }
}
