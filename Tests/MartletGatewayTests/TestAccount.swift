// SPDX-License-Identifier: Apache-2.0
//
// The file of a service account, and assertions that it signs. Rests on JWTKit.

import Foundation
import JWTKit
import Martlet
import MartletGateway
import Testing

/// What an SDK has: the file, and what it signs with it.
struct TestAccount {
    struct Claims: JWTPayload {
        var iss: String
        var aud: String
        var iat: Double
        var exp: Double
        var nbf: Double?
        var scope: String?
        func verify(using algorithm: some JWTAlgorithm) {}
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
        _ claims: Claims, keyID: String? = nil, _ fields: [String: JWTHeaderField] = [:]
    ) async throws -> String {
        let key = try Insecure.RSA.PrivateKey(pem: try #require(members["private_key"]?.string))
        let keys = await JWTKeyCollection().add(rsa: key, digestAlgorithm: .sha256)
        var header: JWTHeader = ["alg": "RS256"]
        let keyID = keyID ?? file.keyID
        if !keyID.isEmpty { header.fields["kid"] = .string(keyID) }
        header.fields.merge(fields) { $1 }
        return try await keys.sign(claims, header: header)
    }
}
