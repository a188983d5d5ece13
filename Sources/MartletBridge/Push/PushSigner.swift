// SPDX-License-Identifier: Apache-2.0
//
// Signs the tokens by which push services recognise an application server. A token is good for one origin and some hours,
// so we keep it instead of signing one for each message. Rests on MartletCrypto, and on MartletWire for JSON.
// Source: RFC 8292; RFC 7515 (compact serialization).

import Martlet
package import MartletCrypto
import Synchronization

/// Signs for an application server.
package final class PushSigner: Sendable {
    private struct Kept {
        let authorization: String
        let end: Int64
    }

    /// How long a token lives, in seconds: half the 24 hours that RFC 8292 allows, as libraries do it, so that a clock that
    /// is hours off does no harm.
    package static let tokenSeconds: Int64 = 43_200
    /// A token is replaced so many seconds before it expires.
    private static let restSeconds: Int64 = 3600
    /// How many origins we keep tokens for. There are few push services; past this we forget them all and start over.
    private static let originsMax = 1024

    /// The public key in Base64URL.
    package let id: String
    private let key: SigningKey
    private let contact: String?
    private let kept = Mutex<[String: Kept]>([:])

    /// - Parameter contact: where a push service's operators can reach the sender: `mailto:` or `https:`. Some services
    ///   refuse tokens without it.
    package init(_ key: SigningKey, contact: String?) {
        self.key = key
        id = Base64URL.encode(key.publicPoint)
        self.contact = contact
    }

    /// The header `Authorization` for an origin.
    /// - Parameter origin: scheme, host, and the port unless it is the scheme's default.
    package func authorization(for origin: String, at now: Instant) -> String {
        let seconds = now.millisecondsSince1970 / 1000
        if let kept = kept.withLock({ $0[origin] }), kept.end - Self.restSeconds > seconds,
            kept.end - Self.tokenSeconds <= seconds
        {
            return kept.authorization
        }
        let end = seconds + Self.tokenSeconds
        let text = "vapid t=\(token(for: origin, until: end)),k=\(id)"
        kept.withLock { kept in
            if kept.count >= Self.originsMax { kept.removeAll() }
            kept[origin] = Kept(authorization: text, end: end)
        }
        return text
    }

    private func token(for origin: String, until end: Int64) -> String {
        var claims: JSONObject = ["aud": .string(origin), "exp": .integer(end)]
        if let contact { claims["sub"] = .string(contact) }
        let header = JSONValue.object(["typ": .string("JWT"), "alg": .string("ES256")])
        let signed =
            Base64URL.encode(Array(header.text.utf8)) + "."
            + Base64URL.encode(Array(JSONValue.object(claims).text.utf8))
        return signed + "." + Base64URL.encode(key.signature(of: Array(signed.utf8)))
    }
}
