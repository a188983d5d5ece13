// SPDX-License-Identifier: Apache-2.0
//
// A signed assertion (JWT). An SDK signs the assertion with a service-account key and exchanges it for an access
// token (GW-5). The gateway verifies the signature first and judges the claims afterwards. Source: RFC 7523, RFC 7519.
// Rests on MartletCrypto.

import Martlet
import MartletCrypto

/// A service account's assertion. The claims are to be trusted only after `isSigned(by:)`.
struct Assertion {
    /// Tolerated difference between an app server's clock and the broker's clock, in seconds.
    static let skewSeconds: Double = 300
    /// Longest life of an assertion, from `iat` to `exp`, in seconds: one hour, because SDKs ask for one hour.
    static let lifeSecondsMax: Double = 3600
    /// Longest assertion, in bytes.
    static let bytesMax = 8192
    /// Audiences for every endpoint: SDKs write the address of their time into each assertion, wherever the assertion
    /// is sent.
    static let wellKnownAudiences: Set<String> = [
        "https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token",
        "https://www.googleapis.com/oauth2/v4/token", "https://www.googleapis.com/oauth2/v3/token",
    ]
    /// Audiences of a bearer token that its sender signed (AIP-4111).
    static let services = Set(
        ["fcm", "iid", "fcmdata", "fcmregistrations"].map { "https://\($0).googleapis.com/" })
    /// Scopes for sending; an assertion must name at least one.
    static let scopes: Set<Substring> = [
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/firebase.messaging",
    ]

    /// ID of the key in the header; nil: the header names no key.
    let keyID: String?
    /// Name of the algorithm in the header; nil: the header names none.
    let algorithm: String?
    /// True for a header with extensions that a reader must understand.
    let isExtended: Bool
    let issuer: String
    private let subject: String?
    /// Empty in a bearer token that names scopes instead.
    private let audiences: [String]
    /// Seconds since 1970, with a fraction.
    private let issued: Double
    private let expires: Double
    private let starts: Double?
    private let scope: String?
    private let signed: [UInt8]
    private let signature: [UInt8]

    /// Reads an assertion without a check of the signature.
    /// - Returns: nil for a text that is no JWT with all claims.
    init?(parsing text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64URL.decode(parts[2]),
            let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let issuer = claims["iss"]?.string,
            let issued = Self.seconds(claims["iat"]), let expires = Self.seconds(claims["exp"])
        else { return nil }
        switch claims["aud"] {
        case .string(let audience)?: audiences = [audience]
        case .array(let all)?: audiences = all.compactMap(\.string)
        case nil where claims["scope"] != nil: audiences = []
        default: return nil
        }
        keyID = header["kid"]?.string
        algorithm = header["alg"]?.string
        isExtended = header["crit"] != nil
        self.issuer = issuer
        subject = claims["sub"]?.string
        self.issued = issued
        self.expires = expires
        starts = Self.seconds(claims["nbf"])
        guard starts != nil || claims["nbf"] == nil else { return nil }
        scope = claims["scope"]?.string
        signed = Array((parts[0] + "." + parts[1]).utf8)
        self.signature = signature
    }

    private static func object(_ part: Substring) -> JSONValue? {
        guard let bytes = Base64URL.decode(part), let value = try? JSONValue(parsing: bytes),
            case .object = value
        else { return nil }
        return value
    }

    private static func seconds(_ claim: JSONValue?) -> Double? {
        switch claim {
        case .integer(let seconds)?: Double(seconds)
        case .number(let number)?: number.value
        default: nil
        }
    }

    /// Whether the assertion is signed by the private half of a key.
    /// - Parameter publicKey: SubjectPublicKeyInfo in DER.
    func isSigned(by publicKey: [UInt8]) -> Bool {
        algorithm == TicketAlgorithm.rs256.name
            && VerificationKey(.rs256, material: publicKey).verifies(signature, over: signed)
    }

    /// Judges the claims against the account, the audiences and the time.
    /// - Parameter now: seconds since 1970, by the broker's clock.
    /// - Returns: the reason for a refusal; nil for a valid assertion.
    func fault(
        of account: ServiceAccountDetails, audiences: Set<String>, now: Double
    ) -> OAuthError? {
        if let fault = fault(of: account, now: now) { return fault }
        guard self.audiences.contains(where: audiences.contains) else {
            return .invalidGrant(
                "Invalid JWT: aud must be the address of this token endpoint; `--http-token-url` adds one."
            )
        }
        guard isForSending else {
            return OAuthError(
                "invalid_scope", "The scope cloud-platform or firebase.messaging is needed.")
        }
        return nil
    }

    /// Judges the claims of a bearer token that its sender signed: it speaks for the account itself, and is for a service, or
    /// names scopes (AIP-4111).
    func fault(
        ofBearer account: ServiceAccountDetails, audiences: Set<String>, now: Double
    ) -> OAuthError? {
        if let fault = fault(of: account, now: now) { return fault }
        guard subject == issuer else {
            return .invalidGrant("Invalid JWT: sub must be the same as iss.")
        }
        let isForService = self.audiences.contains {
            audiences.contains($0) || audiences.contains($0 + "/")
        }
        guard isForService || (self.audiences.isEmpty && isForSending) else {
            return .invalidGrant("Invalid JWT: aud must be the address of this service.")
        }
        return nil
    }

    private var isForSending: Bool {
        scope?.split(separator: " ").contains(where: Self.scopes.contains) ?? false
    }

    private func fault(of account: ServiceAccountDetails, now: Double) -> OAuthError? {
        guard issuer == account.clientEmail else {
            return .invalidGrant("Invalid JWT: iss must be the service account's client_email.")
        }
        guard max(issued, starts ?? issued) <= now + Self.skewSeconds,
            expires > now - Self.skewSeconds,
            expires - issued <= Self.lifeSecondsMax, expires > issued
        else {
            return .invalidGrant(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "
                    + "timeframe. Check your iat, nbf and exp values in the JWT claim.")
        }
        return nil
    }
}

/// A refusal by the token endpoint. Source: RFC 6749 §5.2.
struct OAuthError: AnsweredError {
    var word: String
    var description: String
    var status: Int
    /// Beside those of every answer: when to try again, and in which coding.
    var headers: [(name: String, value: String)]

    init(
        _ word: String, _ description: String, status: Int = 400,
        headers: [(name: String, value: String)] = []
    ) {
        self.word = word
        self.description = description
        self.status = status
        self.headers = headers
    }

    /// True if the credential itself is refused; false for a badly written request.
    var isOfCredential: Bool { word == "invalid_grant" }

    static func invalidGrant(_ description: String) -> OAuthError {
        OAuthError("invalid_grant", description)
    }

    var countedCause: ErrorWord? { isOfCredential ? .unauthenticated : .invalidArgument }

    var answer: GatewayAnswer {
        .json(
            .object(["error": .string(word), "error_description": .string(description)]),
            status: status, headers: [("cache-control", "no-store")] + headers)
    }
}
