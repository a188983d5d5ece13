// SPDX-License-Identifier: Apache-2.0
//
// The three ways in which XMPP says no: a stream error closes the connection, after a failed sign-in the app server may try
// again, and a stanza error is about one stanza. Source: RFC 6120, sections 4.9, 6.5 and 8.3. Pure.

/// A no, and a sentence for people, which never contains a password.
struct XMPPError<Condition: RawRepresentable<String> & Hashable & Sendable>: Error, Hashable {
    var condition: Condition
    var text: String

    init(_ condition: Condition, _ text: String) {
        self.condition = condition
        self.text = text
    }
}

/// An error that ends a stream.
typealias StreamError = XMPPError<StreamCondition>

/// Source: RFC 6120 §4.9.3.
enum StreamCondition: String, Sendable, CaseIterable {
    case badFormat = "bad-format"
    case connectionTimeout = "connection-timeout"
    case improperAddressing = "improper-addressing"
    case invalidNamespace = "invalid-namespace"
    case notAuthorized = "not-authorized"
    case notWellFormed = "not-well-formed"
    case policyViolation = "policy-violation"
    case reset
    case resourceConstraint = "resource-constraint"
    case restrictedXML = "restricted-xml"
    case systemShutdown = "system-shutdown"
    case unsupportedEncoding = "unsupported-encoding"
    case unsupportedStanzaType = "unsupported-stanza-type"
    case unsupportedVersion = "unsupported-version"
}

extension StreamError {
    var xml: String {
        """
        <stream:error><\(condition.rawValue) xmlns="\(Namespace.streamErrors)"/>\
        <text xmlns="\(Namespace.streamErrors)" xml:lang="en">\(XML.escaped(text))</text>\
        </stream:error>
        """
    }
}

/// A refused attempt to sign in.
typealias SignInFailure = XMPPError<SignInCondition>

/// Source: RFC 6120 §6.5.
enum SignInCondition: String, Sendable {
    case aborted
    case incorrectEncoding = "incorrect-encoding"
    case invalidAuthzid = "invalid-authzid"
    case invalidMechanism = "invalid-mechanism"
    case malformedRequest = "malformed-request"
    case notAuthorized = "not-authorized"
    case temporaryAuthFailure = "temporary-auth-failure"
}

extension SignInFailure {
    var xml: String {
        """
        <failure xmlns="\(Namespace.sasl)"><\(condition.rawValue)/>\
        <text xml:lang="en">\(XML.escaped(text))</text></failure>
        """
    }
}

/// An error of one stanza.
typealias StanzaError = XMPPError<StanzaCondition>

/// Source: RFC 6120 §8.3.3.
enum StanzaCondition: String, Sendable {
    case badRequest = "bad-request"
    case notAllowed = "not-allowed"
    case serviceUnavailable = "service-unavailable"

    /// The type of the error, and its code in older clients. Source: XEP-0086.
    fileprivate var type: (name: String, code: Int) {
        switch self {
        case .badRequest: ("modify", 400)
        case .notAllowed: ("cancel", 405)
        case .serviceUnavailable: ("cancel", 503)
        }
    }
}

extension StanzaError {
    var xml: String {
        """
        <error code="\(condition.type.code)" type="\(condition.type.name)">\
        <\(condition.rawValue) xmlns="\(Namespace.stanzaErrors)"/>\
        <text xmlns="\(Namespace.stanzaErrors)">\(XML.escaped(text))</text></error>
        """
    }
}
