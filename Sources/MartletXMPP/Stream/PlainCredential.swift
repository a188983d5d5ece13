// SPDX-License-Identifier: Apache-2.0
//
// Reads what an app server signs in with: its sender ID and a server key, in the form of SASL's mechanism PLAIN. The user
// is `SENDER_ID@DOMAIN`, but most libraries send only what is before the `@`. Source: RFC 4616. Rests on Base64URL.

import Martlet

/// The user and the password of an app server.
struct PlainCredential: Sendable {
    /// The sender ID as written.
    var senderID: String
    /// The server key. Never log it.
    var serverKey: String

    /// Longest credential after decoding, in bytes.
    private static let bytesMax = 2048

    /// Reads the text of an `auth` or `response` element.
    init(_ text: String) throws(SignInFailure) {
        guard let bytes = Self.base64(text) else {
            throw SignInFailure(.incorrectEncoding, "The credential is not Base64.")
        }
        let parts = bytes.split(separator: 0, omittingEmptySubsequences: false)
        guard bytes.count <= Self.bytesMax, parts.count == 3,
            let identity = String(validating: parts[0], as: UTF8.self),
            let user = String(validating: parts[1], as: UTF8.self), !user.isEmpty,
            let password = String(validating: parts[2], as: UTF8.self), !password.isEmpty
        else {
            throw SignInFailure(
                .malformedRequest,
                "The credential is a user and a password, with a zero byte before each.")
        }
        senderID = Self.local(user)
        serverKey = password
        guard identity.isEmpty || Self.local(identity) == senderID else {
            throw SignInFailure(.invalidAuthzid, "An app server can only act for its own sender.")
        }
    }

    private static func local(_ address: String) -> String {
        String(address.prefix { $0 != "@" })
    }

    private static func base64(_ text: String) -> [UInt8]? {
        // An empty message is written as an equals sign. Source: RFC 6120 §6.4.2.
        if text == "=" { return [] }
        guard text.utf8.count % 4 == 0 else { return nil }
        var digits: [UInt8] = []
        for digit in text.utf8 {
            switch digit {
            case UInt8(ascii: "+"): digits.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): digits.append(UInt8(ascii: "_"))
            case UInt8(ascii: "-"), UInt8(ascii: "_"): return nil
            default: digits.append(digit)
            }
        }
        let padding = digits.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        guard padding <= 2 else { return nil }
        return Base64URL.decode(String(decoding: digits.dropLast(padding), as: UTF8.self))
    }
}
