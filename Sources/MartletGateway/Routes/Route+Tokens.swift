// SPDX-License-Identifier: Apache-2.0
//
// The token endpoint (GW-5): an assertion signed with a service-account key is exchanged for an access
// token. Rests on Assertion.

import CryptoExtras
import JWTKit
import Martlet

extension Route {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    static let tokens = [
        Route(
            "token", .post, "token", access: .anyone, refusal: { OAuthError($0).answer }
        ) { (call, gateway) in
            do {
                return try await gateway.exchange(call)
            } catch let error as OAuthError {
                return error.answer
            }
        }
    ]

    fileprivate static func assertion(in call: GatewayCall) throws(OAuthError) -> String {
        guard let text = String(validating: call.body, as: UTF8.self),
            let form = PercentEncoding.form(text[...])
        else { throw OAuthError("invalid_request", "The body is no form.") }
        func value(_ name: String) -> String? { form.first { $0.name == name }?.value }
        guard value("grant_type") == grantType else {
            throw OAuthError(
                "unsupported_grant_type", "Invalid grant_type: it must be \(grantType).")
        }
        guard let assertion = value("assertion"), !assertion.isEmpty else {
            throw OAuthError("invalid_request", "Missing required parameter: assertion")
        }
        return assertion
    }
}

extension Gateway {
    /// Assertions that are not verified cost no more than reading them: who signs with an unknown key
    /// is refused before any arithmetic.
    fileprivate func exchange(_ call: GatewayCall) async throws -> GatewayAnswer {
        let text = try Route.assertion(in: call)
        let invalid = OAuthError.invalidGrant("Invalid JWT Signature.")
        let header: JWTHeader
        do {
            header = try DefaultJWTParser().parse(Array(text.utf8), as: Assertion.self).header
        } catch {
            throw OAuthError.invalidGrant("Bad Request: the assertion is no JWT with all claims.")
        }
        guard header.alg == "RS256", let keyID = header.kid else {
            throw OAuthError.invalidGrant(
                "The assertion must be signed with RS256 and name its kid.")
        }
        let account: ServiceAccountSummary
        do throws(MartletError) {
            account = try broker.serviceAccount(keyID).account
        } catch {
            guard error.word == .unauthenticated else { throw error }
            throw invalid
        }
        let assertion: Assertion
        do {
            let key = try Insecure.RSA.PublicKey(
                backing: _RSA.Signing.PublicKey(derRepresentation: account.publicKey))
            let keys = await JWTKeyCollection().add(
                rsa: key, digestAlgorithm: .sha256, kid: JWKIdentifier(string: keyID))
            assertion = try await keys.verify(text)
        } catch {
            throw invalid
        }
        if let fault = assertion.fault(
            of: account, audiences: audiences(call), now: nowSeconds)
        {
            throw fault
        }
        let life = configuration.accessTokenSeconds
        let token = try broker.mintAccessToken(for: keyID, lifeSeconds: life)
        return .json(
            .object([
                "access_token": .string(token), "expires_in": .integer(Int64(life)),
                "token_type": .string("Bearer"),
            ]), headers: [("cache-control", "no-store")])
    }

    /// What an assertion may be addressed to: what SDKs that do not look address it to, what the
    /// configuration says, and where the call itself went.
    private func audiences(_ call: GatewayCall) -> Set<String> {
        var result: Set<String> = [Assertion.wellKnownAudience]
        result.formUnion(configuration.tokenURLs)
        if let host = call.header("host") {
            result.insert("http://\(host)/token")
            result.insert("https://\(host)/token")
        }
        return result
    }
}

extension OAuthError {
    /// What is not the caller's fault.
    init(_ error: GatewayError) {
        self.init(
            error.status == .unavailable ? "temporarily_unavailable" : "invalid_request",
            error.message, status: error.httpStatus)
    }
}
