// SPDX-License-Identifier: Apache-2.0
//
// An XML element, and writing it. Only characters that XML 1.0 allows are written. Pure.

/// An element with its attributes, its elements and its text.
struct StanzaElement: Sendable, Hashable {
    var name: String
    var namespace: String
    /// By name. If an attribute has a namespace, the namespace and a space come before its name.
    var attributes: [String: String] = [:]
    var children: [StanzaElement] = []
    /// The element's own text, without that of elements in it.
    var text = ""

    func child(_ name: String, _ namespace: String) -> StanzaElement? {
        children.first { $0.name == name && $0.namespace == namespace }
    }
}

/// The namespaces of a stream. Source: RFC 6120, RFC 3921, XEP-0199.
enum Namespace {
    static let stream = "http://etherx.jabber.org/streams"
    static let client = "jabber:client"
    static let streamErrors = "urn:ietf:params:xml:ns:xmpp-streams"
    static let stanzaErrors = "urn:ietf:params:xml:ns:xmpp-stanzas"
    static let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
    static let bind = "urn:ietf:params:xml:ns:xmpp-bind"
    static let session = "urn:ietf:params:xml:ns:xmpp-session"
    static let ping = "urn:xmpp:ping"
    /// The element that carries a message's JSON.
    static let messages = "google:mobile:data"
}

enum XML {
    /// Escapes text for an element or a quoted attribute. A character that XML doesn't allow becomes a question mark.
    static func escaped(_ text: String) -> String {
        var out = ""
        out.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            case "'": out += "&apos;"
            case "\r": out += "&#13;"
            case "\t", "\n": out.unicodeScalars.append(scalar)
            case _ where scalar.value < 0x20 || (0xFFFE...0xFFFF).contains(scalar.value): out += "?"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }

    /// Escapes JSON for an element. Strings in JSON may have characters that XML doesn't allow; they become JSON escapes.
    static func escaped(json: String) -> String {
        let isPlain = !json.unicodeScalars.contains { (0xFFFE...0xFFFF).contains($0.value) }
        guard !isPlain else { return escaped(json) }
        var allowed = ""
        for scalar in json.unicodeScalars {
            switch scalar.value {
            case 0xFFFE: allowed += "\\uFFFE"
            case 0xFFFF: allowed += "\\uFFFF"
            default: allowed.unicodeScalars.append(scalar)
            }
        }
        return escaped(allowed)
    }
}
