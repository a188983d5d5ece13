// SPDX-License-Identifier: Apache-2.0
//
// Tickets (REG-7): JSON Web Tokens that the server of an app signs and a new device presents. A ticket is read, its
// signature is verified, and then its claims are compared with the registration. Rests on Signature.
// Source: RFC 7515 (compact serialization), RFC 7519 (claims).

public import MartletBase

/// A ticket as a device presents the ticket. A ticket's content is to be trusted only after `verifies(with:)`.
public struct Ticket: Sendable {
    /// The registration that a ticket is presented for.
    public struct Purpose: Sendable {
        /// ID of the project.
        public var project: String
        /// Name of the app.
        public var app: String
        /// Platform of the app.
        public var platform: Platform

        public init(project: String, app: String, platform: Platform) {
            self.project = project
            self.app = app
            self.platform = platform
        }
    }

    /// The claims of a ticket that was accepted.
    public struct Claims: Sendable, Hashable {
        /// End of the ticket.
        public var expires: Instant
        /// TOP-10: topics that the ticket allows.
        public var topics: [String]
        /// The name of the ticket, unique among the tickets of a key: the claim `jti`, else the signed text.
        public var identity: String
    }

    /// Last second that a ticket can name: the end of the year 9999.
    private static let secondsMax = 253_402_300_799.0

    /// ID of the key in the header; nil: the header names no key.
    public let keyID: String?
    /// Algorithm in the header.
    public let algorithm: TicketAlgorithm
    private let claims: JSONValue
    private let signed: [UInt8]
    private let signature: [UInt8]

    /// Reads a ticket without a check of the signature.
    /// - Throws: `PERMISSION_DENIED` for a text that is no ticket, or a ticket of another algorithm.
    public init(parsing text: String) throws(MartletError) {
        guard text.utf8.count <= Limits.ticketBytesMax else {
            throw .badTicket("has more than \(Limits.ticketBytesMax) bytes")
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64URL.decode(parts[2]),
            let header = Self.object(parts[0]), let claims = Self.object(parts[1])
        else { throw .badTicket("is no JSON Web Token in compact serialization") }
        guard header["crit"] == nil else {
            throw .badTicket("has critical headers, which are not known here")
        }
        guard
            let algorithm = TicketAlgorithm.allCases.first(where: {
                $0.name == header["alg"]?.string
            })
        else { throw .badTicket("is not signed by HS256, RS256 or ES256") }
        let keyID = header["kid"]
        guard keyID == nil || keyID?.string != nil else {
            throw .badTicket("has a 'kid' that is no text")
        }
        self.keyID = keyID?.string
        self.algorithm = algorithm
        self.claims = claims
        self.signature = signature
        signed = Array((parts[0] + "." + parts[1]).utf8)
    }

    private static func object(_ part: Substring) -> JSONValue? {
        guard let bytes = Base64URL.decode(part), let value = try? JSONValue(parsing: bytes),
            case .object = value
        else { return nil }
        return value
    }

    /// Whether the ticket is signed by the key. A key of another algorithm signs no ticket.
    public func verifies(with key: VerificationKey) -> Bool {
        key.algorithm == algorithm && key.verifies(signature, over: signed)
    }

    /// Compares the claims with the registration.
    /// - Throws: `PERMISSION_DENIED` with the claim that does not fit.
    public func accepted(for purpose: Purpose, at now: Instant) throws(MartletError) -> Claims {
        guard let expires = try instant("exp") else { throw .badTicket("has no 'exp'") }
        guard expires > now else {
            throw .badTicket("has expired; fetch another from the app's server")
        }
        guard expires <= now.advanced(bySeconds: Int64(Limits.ticketSecondsMax)) else {
            throw .badTicket("expires more than \(Limits.ticketSecondsMax) seconds ahead")
        }
        if let begins = try instant("nbf"), begins > now { throw .badTicket("is not valid yet") }
        if let audience = claims["aud"], !Self.names(audience, purpose.project) {
            throw .badTicket("is for another 'aud' than the project")
        }
        if let app = try text("app"), app != purpose.app {
            throw .badTicket("is for another app")
        }
        if let platform = try text("platform"), platform != purpose.platform.name {
            throw .badTicket("is for another platform")
        }
        let jti = try text("jti")
        let signedText = String(decoding: signed, as: UTF8.self)
        return Claims(
            expires: expires, topics: try topics(),
            identity: jti.map { "jti " + $0 } ?? "text " + signedText)
    }

    private static func names(_ audience: JSONValue, _ project: String) -> Bool {
        if case .array(let all) = audience { return all.contains { $0.string == project } }
        return audience.string == project
    }

    private func text(_ claim: String) throws(MartletError) -> String? {
        guard let value = claims[claim] else { return nil }
        guard let text = value.string else { throw .badTicket("has '\(claim)' that is no text") }
        return text
    }

    /// A claim in seconds since 1970, also with a fraction (RFC 7519, section 2).
    private func instant(_ claim: String) throws(MartletError) -> Instant? {
        let seconds: Double
        switch claims[claim] {
        case nil: return nil
        case .integer(let value)?: seconds = Double(value)
        case .number(let number)?: seconds = number.value
        default: throw .badTicket("has '\(claim)' that is no number")
        }
        guard (0...Self.secondsMax).contains(seconds) else {
            throw .badTicket("has '\(claim)' out of range")
        }
        return Instant(millisecondsSince1970: Int64(seconds * 1000))
    }

    private func topics() throws(MartletError) -> [String] {
        guard let value = claims["topics"] else { return [] }
        guard case .array(let all) = value, all.count <= Limits.topicGrantsMax,
            all.allSatisfy({ $0.string.map(TopicPolicy.isGrant) ?? false })
        else {
            throw .badTicket(
                "has 'topics' that is no list of up to \(Limits.topicGrantsMax) topics")
        }
        return all.compactMap(\.string)
    }
}

extension MartletError {
    fileprivate static func badTicket(_ fault: String) -> MartletError {
        MartletError(.permissionDenied, "The ticket \(fault).", field: "registration")
    }
}
