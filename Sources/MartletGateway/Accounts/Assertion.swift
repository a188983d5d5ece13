// SPDX-License-Identifier: Apache-2.0
//
// What an SDK signs with its service-account key to get an access token (GW-5). The signature comes
// first, then what it says. Source: RFC 7523. Rests on JWTKit.

import CryptoExtras
import FoundationEssentials
import JWTKit
import Martlet

/// The claims of an assertion.
struct Assertion: JWTPayload {
    /// How far the clocks of app servers may be off, in seconds.
    static let skewSeconds: Double = 300
    /// The longest life of an assertion, in seconds: what SDKs ask for.
    static let lifeSecondsMax: Double = 3600
    /// Some SDKs address every assertion to this, wherever they send it.
    static let wellKnownAudience = "https://oauth2.googleapis.com/token"
    /// One of these is needed to send.
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

    /// What is said is judged by `check`, with the broker's clock.
    func verify(using algorithm: some JWTAlgorithm) {}

    /// - Returns: why it is not taken; nil if it is.
    func fault(
        of account: ServiceAccountSummary, audiences: Set<String>, now: Double
    ) -> OAuthError? {
        guard iss.value == account.clientEmail else {
            return .invalidGrant("Invalid JWT: iss must be the service account's client_email.")
        }
        guard aud.value.contains(where: audiences.contains) else {
            return .invalidGrant("Invalid JWT: aud must be the address of this token endpoint.")
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

/// A refusal of the token endpoint. Source: RFC 6749 §5.2.
struct OAuthError: Error {
    var word: String
    var description: String
    var status: Int

    init(_ word: String, _ description: String, status: Int = 400) {
        self.word = word
        self.description = description
        self.status = status
    }

    /// Whether what was presented is refused, and not how the request was written.
    var isOfCredential: Bool { word == "invalid_grant" }

    static func invalidGrant(_ description: String) -> OAuthError {
        OAuthError("invalid_grant", description)
    }

    var answer: GatewayAnswer {
        .json(
            .object(["error": .string(word), "error_description": .string(description)]),
            status: status, headers: [("cache-control", "no-store")])
    }
}
