// SPDX-License-Identifier: Apache-2.0
//
// The token endpoint (GW-5): exchanges an assertion, signed with a service-account key, for an access token. Rests on
// Assertion.

import Martlet
import Synchronization

extension Route {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    /// The path of today, and those of the token endpoints that older libraries know.
    fileprivate static let tokenPaths = [
        "token", "o/oauth2/token", "oauth2/v4/token", "oauth2/v3/token",
    ]

    static let tokens = tokenPaths.map { path in
        Route(
            "token", .post, path, access: .exchange, refusal: { OAuthError($0).answer }
        ) { (call, gateway) in
            do {
                return try gateway.exchange(call)
            } catch let error as OAuthError {
                guard error.isOfCredential else { throw error }
                throw WrongCredential(kind: "assertion", refusal: error)
            }
        }
    }

    fileprivate static func assertion(in call: GatewayCall) throws(OAuthError) -> String {
        let value = try parameters(of: call)
        guard value("grant_type") == grantType else {
            throw OAuthError(
                "unsupported_grant_type", "Invalid grant_type: it must be \(grantType).")
        }
        guard let assertion = value("assertion"), !assertion.isEmpty else {
            throw OAuthError("invalid_request", "Missing required parameter: assertion")
        }
        guard assertion.utf8.count <= Assertion.bytesMax else {
            throw OAuthError.invalidGrant(
                "Invalid JWT: an assertion has at most \(Assertion.bytesMax) bytes.")
        }
        return assertion
    }

    /// The parameters of a token request: a form, or JSON as some older libraries send it.
    private static func parameters(
        of call: GatewayCall
    ) throws(OAuthError) -> (_ name: String) -> String? {
        if call.hasContentType("application/json") {
            guard
                let value = try? JSONValue(document: call.body, repeatedNames: .takeLast),
                case .object(let members) = value
            else { throw OAuthError("invalid_request", "The body is no JSON object.") }
            return { members[$0]?.string }
        }
        guard let text = String(validating: call.body, as: UTF8.self),
            let form = PercentEncoding.form(text[...])
        else { throw OAuthError("invalid_request", "The body is no form.") }
        return { name in form.first { $0.name == name }?.value }
    }
}

extension Gateway {
    /// Exchanges the call's assertion for an access token. An assertion with an unknown key is refused before any
    /// arithmetic, so that a flood of bad assertions costs only the parsing.
    fileprivate func exchange(_ call: GatewayCall) throws -> GatewayAnswer {
        let (assertion, account) = try signed(try Route.assertion(in: call))
        if let fault = assertion.fault(
            of: account, audiences: audiences, now: nowSeconds)
        {
            throw fault
        }
        let life = configuration.accessTokenSeconds
        let token = try broker.mintAccessToken(for: account.keyID, lifeSeconds: life)
        return .json(
            .object([
                "access_token": .string(token), "expires_in": .integer(Int64(life)),
                "token_type": .string("Bearer"),
            ]), headers: [("cache-control", "no-store")])
    }

    /// Reads an assertion, and finds the account that signed it.
    private func signed(
        _ text: String
    ) throws -> (assertion: Assertion, account: ServiceAccountDetails) {
        guard let assertion = Assertion(parsing: text) else {
            throw OAuthError.invalidGrant("Bad Request: the assertion is no JWT with all claims.")
        }
        guard assertion.algorithm == TicketAlgorithm.rs256.name else {
            throw OAuthError.invalidGrant("The assertion must be signed with RS256.")
        }
        guard !assertion.isExtended else {
            throw OAuthError.invalidGrant("Invalid JWT: no extension of its header is understood.")
        }
        let accounts = try accounts(of: assertion.keyID, issuer: assertion.issuer)
        guard let account = accounts.first(where: { assertion.isSigned(by: $0.publicKey) }) else {
            throw OAuthError.invalidGrant("Invalid JWT Signature.")
        }
        return (assertion, account)
    }

    /// The sender that signed a bearer token itself, without an exchange (AIP-4111).
    /// - Throws: UNAUTHENTICATED as `MartletError` for a token that is not in order; other errors of the broker pass on.
    func sender(signing text: String) throws -> Caller {
        do {
            let (assertion, account) = try signed(text)
            if let fault = assertion.fault(
                ofBearer: account, audiences: serviceAudiences, now: nowSeconds)
            {
                throw fault
            }
            let project = try broker.serviceAccount(account.keyID).project
            return Caller(
                projectID: project.id, senderID: project.senderID, credential: .accessToken,
                keyID: account.keyID)
        } catch let error as OAuthError {
            throw MartletError(.unauthenticated, error.description, field: "access_token")
        }
    }

    /// Audiences of a bearer token that its sender signed: one of Google's services, or this gateway.
    private var serviceAudiences: Set<String> {
        var result = Assertion.services
        for url in configuration.tokenURLs {
            result.insert(url.hasSuffix("/token") ? String(url.dropLast("token".utf8.count)) : url)
        }
        for host in hosts { result.insert(origin(at: host) + "/") }
        return result
    }

    /// Keys of a project with the same issuer that are tried, at most.
    private static let triedMax = 4

    /// Keys that may have signed an assertion. Some SDKs name no key; the issuer then leads to the keys, because the
    /// issuer's address contains the project.
    private func accounts(
        of keyID: String?, issuer: String
    ) throws(MartletError) -> [ServiceAccountDetails] {
        do throws(MartletError) {
            if let keyID { return [try broker.serviceAccount(keyID).account] }
            let domain = issuer.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
            guard domain.hasSuffix(ServiceAccountFile.emailDomain) else { return [] }
            let project = String(domain.dropLast(ServiceAccountFile.emailDomain.count))
            let known = try broker.serviceAccountDetails(in: project).filter {
                !$0.isRevoked && $0.clientEmail == issuer
            }
            return Array(known.prefix(Self.triedMax))
        } catch {
            guard error.word == .unauthenticated || error.word == .notFound else { throw error }
            return []
        }
    }

    /// Accepted audiences of an assertion: the well-known addresses, the configured URLs, and the address at which the
    /// gateway listens.
    private var audiences: Set<String> {
        var result = Assertion.wellKnownAudiences
        result.formUnion(configuration.tokenURLs)
        for host in hosts {
            for path in Route.tokenPaths { result.insert(origin(at: host) + "/" + path) }
        }
        return result
    }

    /// The names of the address at which the gateway listens. A wildcard address includes this machine's loopback
    /// addresses.
    private var hosts: [String] {
        switch configuration.address.host {
        case "127.0.0.1", "localhost": ["127.0.0.1", "localhost"]
        case "0.0.0.0": ["0.0.0.0", "127.0.0.1", "localhost"]
        case "::": ["::", "::1", "127.0.0.1", "localhost"]
        case let host: [host]
        }
    }

    /// The URL of `/token` for SDKs: the first configured URL, else the address at which the gateway listens. A
    /// wildcard address becomes this machine's loopback address.
    package var tokenURL: String {
        if let told = configuration.tokenURLs.first { return told }
        return switch configuration.address.host {
        case "0.0.0.0": tokenURL(at: "127.0.0.1")
        case "::": tokenURL(at: "::1")
        case let host: tokenURL(at: host)
        }
    }

    private func tokenURL(at host: String) -> String { origin(at: host) + "/token" }

    private func origin(at host: String) -> String {
        let scheme = configuration.certificate == nil ? "http" : "https"
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(scheme)://\(name):\(port.load(ordering: .relaxed))"
    }
}

extension OAuthError {
    /// Translates a refusal for which the caller is not at fault.
    init(_ error: GatewayError) {
        self.init(
            error.status == .unavailable ? "temporarily_unavailable" : "invalid_request",
            error.message, status: error.httpStatus, headers: error.headers)
    }
}
