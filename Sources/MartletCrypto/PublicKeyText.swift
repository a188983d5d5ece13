// SPDX-License-Identifier: Apache-2.0
//
// The text form of public keys, as `openssl pkey -pubout` writes them. Rests on EditedText.
// Source: RFC 7468, section 13.

public import MartletBase
import MartletFiles

/// Reads a public key from text.
public enum PublicKeyText {
    /// The SubjectPublicKeyInfo, in DER, between the lines `BEGIN PUBLIC KEY` and `END PUBLIC KEY`.
    /// - Throws: `INVALID_ARGUMENT` for any other text.
    public static func der(_ text: String) throws(MartletError) -> [UInt8] {
        let lines = String(decoding: EditedText(Array(text.utf8)).bytes, as: UTF8.self)
            .split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let (head, foot) = ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----")
        guard lines.hasPrefix(head), lines.hasSuffix(foot), lines.count > head.count + foot.count
        else { throw unreadable }
        let body = lines.dropFirst(head.count).dropLast(foot.count)
        var digits: [UInt8] = []
        for character in body.utf8 {
            switch character {
            case UInt8(ascii: " "), UInt8(ascii: "="): break
            case UInt8(ascii: "+"): digits.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): digits.append(UInt8(ascii: "_"))
            default: digits.append(character)
            }
        }
        guard let der = Base64URL.decode(String(decoding: digits, as: UTF8.self)), !der.isEmpty
        else { throw unreadable }
        return der
    }

    private static var unreadable: MartletError {
        MartletError(
            .invalidArgument,
            "A public key is the text from 'BEGIN PUBLIC KEY' to 'END PUBLIC KEY'.",
            field: "ticket_key")
    }
}
