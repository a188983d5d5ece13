// SPDX-License-Identifier: Apache-2.0
//
// Which texts can be the name or the value of an HTTP field. A sender's text that goes to a push service as a header is
// checked when the message is accepted: an HTTP client refuses to build the request otherwise, and a strict server ends the
// connection. Pure.
// Source: RFC 9110, sections 5.1, 5.5 and 5.6.2.

/// Texts of HTTP fields.
package enum HTTPFieldText {
    /// Whether a text can be the value of a field: no control characters but tabs, and no blank or tab at the ends.
    package static func isValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
            && !isBlank(text.utf8.first) && !isBlank(text.utf8.last)
    }

    /// Whether a text can be the name of a field.
    package static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// The sentence that refuses a value.
    package static func valueFault(of name: String) -> String {
        "\(name) has a control character, or a blank at an end, which no HTTP header can have."
    }

    private static func isBlank(_ byte: UInt8?) -> Bool { byte == 0x20 || byte == 0x09 }
}
