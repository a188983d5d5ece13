// SPDX-License-Identifier: Apache-2.0
//
// The file of a service account, and assertions that it signs. Rests on COpenSSL.

import COpenSSL
import Foundation
import Martlet
import MartletBase
import MartletGateway
import Testing

/// What an SDK has: the file, and what it signs with it.
struct TestAccount {
    struct Claims {
        var iss: String
        /// nil, as in an assertion.
        var sub: String?
        var aud: String
        var iat: Double
        var exp: Double
        var nbf: Double?
        var scope: String?

        var json: JSONValue {
            var members: JSONObject = [
                "iss": .string(iss), "aud": .string(aud), "iat": .number(JSONNumber(iat)),
                "exp": .number(JSONNumber(exp)),
            ]
            members["sub"] = sub.map { .string($0) }
            members["nbf"] = nbf.map { .number(JSONNumber($0)) }
            members["scope"] = scope.map { .string($0) }
            return .object(members)
        }
    }

    let file: ServiceAccountFile
    let members: JSONValue

    init(_ file: ServiceAccountFile) {
        self.file = file
        members = (try? JSONValue(parsing: file.json)) ?? .null
    }

    /// Claims of an SDK, as of now.
    func claims(now: Double = Date().timeIntervalSince1970) -> Claims {
        Claims(
            iss: file.clientEmail, aud: "https://oauth2.googleapis.com/token", iat: now,
            exp: now + 3600,
            scope: "https://www.googleapis.com/auth/cloud-platform "
                + "https://www.googleapis.com/auth/datastore")
    }

    /// - Parameters:
    ///   - keyID: nil: the account's own; empty: none.
    ///   - fields: further ones of the header.
    func sign(
        _ claims: Claims, keyID: String? = nil, _ fields: JSONObject = JSONObject()
    ) throws -> String {
        var header: JSONObject = ["alg": .string("RS256"), "typ": .string("JWT")]
        let keyID = keyID ?? file.keyID
        if !keyID.isEmpty { header["kid"] = .string(keyID) }
        header.merge(fields)
        let text = [JSONValue.object(header), claims.json]
            .map { Base64URL.encode(Array($0.text.utf8)) }.joined(separator: ".")
        let key = try #require(members["private_key"]?.string)
        return text + "." + Base64URL.encode(try Self.signature(of: text, by: key))
    }

    /// RS256 of a text by a private key in PEM.
    private static func signature(of text: String, by pem: String) throws -> [UInt8] {
        // The BIO copies what is written into it.
        let memory = BIO_new(BIO_s_mem())
        defer { BIO_free(memory) }
        try #require(BIO_write(memory, pem, Int32(pem.utf8.count)) == Int32(pem.utf8.count))
        let key = try #require(PEM_read_bio_PrivateKey(memory, nil, nil, nil))
        defer { EVP_PKEY_free(key) }
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        let message = Array(text.utf8)
        var signature = [UInt8](repeating: 0, count: Int(EVP_PKEY_get_size(key)))
        var count = signature.count
        try #require(EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1)
        try #require(EVP_DigestSign(context, &signature, &count, message, message.count) == 1)
        return Array(signature.prefix(count))
    }
}
