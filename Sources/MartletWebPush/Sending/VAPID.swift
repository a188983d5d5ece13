// SPDX-License-Identifier: Apache-2.0
//
// The signed token by which an application server identifies itself. It comes in two forms:
//
//   Authorization: vapid t=TOKEN,k=KEY                                    RFC 8292
//   Authorization: WebPush TOKEN, or Bearer TOKEN; Crypto-Key: p256ecdsa=KEY   the draft, with aesgcm
//
// Senders use one token for hours, and verifying a signature takes some 64 µs, so we remember the tokens that we have
// verified. Rests on MartletCrypto. Source: RFC 8292, RFC 7515.

import Martlet
import MartletCrypto
import MartletGateway
import Synchronization

/// An application server's token, not verified yet.
struct VAPID: Sendable {
    /// Longest token, in bytes.
    static let tokenBytesMax = 4096
    /// Longest life of a token, in seconds: the 24 hours of RFC 8292, and five minutes for clocks that differ.
    static let secondsMax: Double = 86_400 + 300

    /// The public key: a point on P-256 in 65 bytes.
    let publicKey: [UInt8]
    private let token: String

    /// Reads the token of a request.
    /// - Returns: nil if there is none.
    /// - Throws: `PushError` 403 for any other credential.
    init?(_ call: GatewayCall) throws(PushError) {
        guard let header = call.header("authorization") else { return nil }
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { throw Self.wrong("has an unknown form") }
        let key: String?
        switch parts[0].lowercased() {
        case "vapid":
            let parameters = HeaderParameters.list(parts[1])
            guard let token = parameters.first(where: { $0.name == "t" })?.value else {
                throw Self.wrong("has no 't'")
            }
            self.token = token
            key = parameters.first { $0.name == "k" }?.value
        case "webpush", "bearer":
            token = String(parts[1].drop { $0 == " " })
            key = call.list("crypto-key").flatMap { header in
                HeaderParameters.list(header).first { $0.name == "p256ecdsa" }?.value
            }
        default: throw Self.wrong("has an unknown form")
        }
        guard token.utf8.count <= Self.tokenBytesMax else { throw Self.wrong("is too long") }
        guard let key, let publicKey = LenientBase64.publicKey(key) else {
            throw Self.wrong("has no public key")
        }
        self.publicKey = publicKey
    }

    static func wrong(_ reason: String) -> PushError {
        PushError(403, 109, "The VAPID token \(reason).")
    }

    static let missing = PushError(
        401, 109,
        "The subscription only takes messages with a VAPID token of its application server.")

    /// What we remember a verified token by.
    var digest: [UInt8] { SHA256.hash(Array(token.utf8) + publicKey) }

    /// Verifies signature and claims.
    /// - Returns: when the token expires, in seconds since 1970.
    func verified(for origins: [PushOrigin], now: Double) throws(PushError) -> Double {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = LenientBase64.decode(parts[2]),
            let header = Self.object(parts[0]), let claims = Self.object(parts[1])
        else { throw Self.wrong("is not a JSON Web Token") }
        guard header["alg"]?.string == "ES256" else { throw Self.wrong("is not signed with ES256") }
        let verifier = VerificationKey(.es256, material: Self.curvePrefix + publicKey)
        guard verifier.verifies(signature, over: Array((parts[0] + "." + parts[1]).utf8)) else {
            throw Self.wrong("is not signed with its key")
        }
        let expires: Double
        switch claims["exp"] {
        case .integer(let value)?: expires = Double(value)
        case .number(let number)?: expires = number.value
        default: throw Self.wrong("has no numeric 'exp'")
        }
        guard expires > now else { throw Self.wrong("has expired") }
        guard expires <= now + Self.secondsMax else {
            throw Self.wrong("expires more than 24 hours ahead")
        }
        let audiences: [String]
        switch claims["aud"] {
        case .string(let one)?: audiences = [one]
        case .array(let several)?: audiences = several.compactMap(\.string)
        default: audiences = []
        }
        guard audiences.contains(where: { text in origins.contains { $0.isAudience(text) } }) else {
            throw Self.wrong("is for another 'aud' than \(origins[0])")
        }
        return expires
    }

    private static func object(_ part: Substring) -> JSONValue? {
        guard let bytes = LenientBase64.decode(part),
            let value = try? JSONValue(parsing: bytes, repeatedNames: .takeLast),
            case .object = value
        else { return nil }
        return value
    }

    /// A SubjectPublicKeyInfo for P-256, up to the point. Source: RFC 5480.
    private static let curvePrefix: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08,
        0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]
}

/// The tokens that we have verified, until they expire.
final class VerifiedTokens: Sendable {
    /// How many to remember. An application server uses one for hours.
    static let countMax = 8192

    private let ends = Mutex<[[UInt8]: Double]>([:])

    /// Verifies a token, unless we know it already.
    /// - Throws: `PushError` 403 with the reason.
    func verify(_ vapid: VAPID, for origins: [PushOrigin], now: Double) throws(PushError) {
        let digest = vapid.digest
        if let end = ends.withLock({ $0[digest] }) {
            guard end > now else { throw VAPID.wrong("has expired") }
            return
        }
        let end = try vapid.verified(for: origins, now: now)
        ends.withLock { ends in
            if ends.count >= Self.countMax {
                ends = ends.filter { $0.value > now }
                if ends.count >= Self.countMax { ends.removeAll() }
            }
            ends[digest] = end
        }
    }
}
