// SPDX-License-Identifier: Apache-2.0
//
// Makes provider tokens, the JSON Web Tokens that prove to Apple whom we speak for. Apple wants each used for 20 to 60
// minutes, so we renew a key's token after 40 minutes, or when Apple says that it has expired, but never before 20. Rests on
// SigningKey.
// Source: Apple, "Establishing a token-based connection to APNs"; RFC 7515, RFC 7519.

import Martlet
import MartletCrypto
import Synchronization

/// The present provider token of each key.
final class ProviderTokens: Sendable {
    private struct Token {
        var text: String
        var made: Instant
        var keyMade: Instant
    }

    private let tokens = Mutex<[String: Token]>([:])

    /// The token of a key.
    /// - Parameter expired: the token that Apple says has expired; nil on the first attempt.
    func token(of key: OpenBridgeKey, at now: Instant, expired: String? = nil) -> String {
        let place = "\(key.owner) \(key.id)"
        return tokens.withLock { tokens in
            if let known = tokens[place], known.keyMade == key.created {
                let seconds =
                    (now.millisecondsSince1970 - known.made.millisecondsSince1970) / 1000
                let isOld =
                    expired == known.text
                    ? seconds >= BridgeLimits.apnsTokenSecondsMin
                    : seconds >= BridgeLimits.apnsTokenSeconds
                // If the clock went back, this token is from the future, and Apple would refuse it.
                if !isOld, seconds >= 0 { return known.text }
            }
            let text = Self.make(key, at: now)
            tokens[place] = Token(text: text, made: now, keyMade: key.created)
            return text
        }
    }

    private static func make(_ key: OpenBridgeKey, at now: Instant) -> String {
        let header = #"{"alg":"ES256","kid":"\#(key.id)"}"#
        let claims = #"{"iss":"\#(key.owner)","iat":\#(now.millisecondsSince1970 / 1000)}"#
        let signed =
            Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        return signed + "." + Base64URL.encode(key.key.signature(of: Array(signed.utf8)))
    }
}
