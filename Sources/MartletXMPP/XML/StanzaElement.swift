// SPDX-License-Identifier: Apache-2.0
//
// An element of a stanza, and the writing of XML. Only characters that XML 1.0 allows are written. Pure.

/// An element with its attributes, its elements and its text.
struct StanzaElement: Sendable, Hashable {
    var name: String
    var namespace: String
    /// By name; the name of an attribute in a namespace has the namespace and a space before it.
    var attributes: [String: String] = [:]
    var children: [StanzaElement] = []
    /// The text directly inside of the element, without that of its elements.
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
    /// The element with the JSON of a message.
    static let messages = "google:mobile:data"
}

enum XML {
    /// A text as the content of an element, or as the value of an attribute in quotation marks. A character that XML
    /// does not allow becomes a question mark.
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

    /// The text of JSON as the content of an element. JSON may have characters inside of its texts that XML does not
    /// allow; these are written as escapes of JSON.
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
