// SPDX-License-Identifier: Apache-2.0
//
// A signed assertion (JWT). An SDK signs the assertion with a service-account key and exchanges it for an access
// token (GW-5). The gateway verifies the signature first and judges the claims afterwards. Source: RFC 7523. Rests on
// JWTKit.

import CryptoExtras
import FoundationEssentials
import JWTKit
import Martlet

/// The claims of a service account's assertion.
struct Assertion: JWTPayload {
    /// Tolerated difference between an app server's clock and the broker's clock, in seconds.
    static let skewSeconds: Double = 300
    /// Longest life of an assertion, from `iat` to `exp`, in seconds: one hour, because SDKs ask for one hour.
    static let lifeSecondsMax: Double = 3600
    /// An audience for every endpoint: some SDKs write this address into each assertion, wherever the assertion is
    /// sent.
    static let wellKnownAudience = "https://oauth2.googleapis.com/token"
    /// Scopes for sending; an assertion must name at least one.
    static let scopes: Set<Substring> = [
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/firebase.messaging",
    ]

    var iss: IssuerClaim
    var aud: AudienceClaim
    var iat: IssuedAtClaim
    var exp: ExpirationClaim
    var nbf: NotBeforeClaim?
    var scope: String?

    /// Accepts all claims, because `fault` judges the claims with the broker's clock.
    func verify(using algorithm: some JWTAlgorithm) {}

    /// Judges the claims against the account, the audiences and the time.
    /// - Parameter now: seconds since 1970, by the broker's clock.
    /// - Returns: the reason for a refusal; nil for a valid assertion.
    func fault(
        of account: ServiceAccountDetails, audiences: Set<String>, now: Double
    ) -> OAuthError? {
        guard iss.value == account.clientEmail else {
            return .invalidGrant("Invalid JWT: iss must be the service account's client_email.")
        }
        guard aud.value.contains(where: audiences.contains) else {
            return .invalidGrant(
                "Invalid JWT: aud must be the address of this token endpoint; `--http-token-url` adds one."
            )
        }
        let issued = iat.value.timeIntervalSince1970
        let expires = exp.value.timeIntervalSince1970
        let starts = nbf?.value.timeIntervalSince1970 ?? issued
        guard max(issued, starts) <= now + Self.skewSeconds, expires > now - Self.skewSeconds,
            expires - issued <= Self.lifeSecondsMax, expires > issued
        else {
            return .invalidGrant(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "
                    + "timeframe. Check your iat, nbf and exp values in the JWT claim.")
        }
        guard let scope, scope.split(separator: " ").contains(where: Self.scopes.contains) else {
            return OAuthError(
                "invalid_scope", "The scope cloud-platform or firebase.messaging is needed.")
        }
        return nil
    }
}

/// A refusal by the token endpoint. Source: RFC 6749 §5.2.
struct OAuthError: Error {
    var word: String
    var description: String
    var status: Int
    /// Value of `Retry-After`; nil for a refusal that waiting does not change.
    var retryAfterSeconds: Int?

    init(
        _ word: String, _ description: String, status: Int = 400, retryAfterSeconds: Int? = nil
    ) {
        self.word = word
        self.description = description
        self.status = status
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// True if the credential itself is refused; false for a badly written request.
    var isOfCredential: Bool { word == "invalid_grant" }

    static func invalidGrant(_ description: String) -> OAuthError {
        OAuthError("invalid_grant", description)
    }

    var answer: GatewayAnswer {
        var answer = GatewayAnswer.json(
            .object(["error": .string(word), "error_description": .string(description)]),
            status: status, headers: [("cache-control", "no-store")])
        if let retryAfterSeconds {
            answer.headers.append(("retry-after", String(retryAfterSeconds)))
        }
        return answer
    }
}
