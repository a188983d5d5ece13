// SPDX-License-Identifier: Apache-2.0
//
// The JSON file that SDKs are given (REG-5): a new RSA key, and where to exchange what is signed with
// it for access tokens. The private half is in the file and nowhere else. Rests on swift-crypto.

import CryptoExtras
import Crypto
import Martlet

/// A new service-account key with its private half.
public struct ServiceAccountFile: Sendable {
    public let projectID: String
    /// Made from the public key.
    public let keyID: String
    public let clientEmail: String
    /// SubjectPublicKeyInfo, in DER: what the broker is told.
    public let publicKey: [UInt8]
    private let clientID: String
    private let privateKey: String
    private let tokenURI: String

    /// Behind the project's ID.
    static let emailDomain = ".iam.gserviceaccount.com"

    /// Makes the pair of keys.
    /// - Parameter tokenURI: the address of the gateway's `/token`, as SDKs reach it.
    public init(projectID: String, tokenURI: String) throws {
        let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        publicKey = Array(key.publicKey.derRepresentation)
        privateKey = key.pkcs8PEMRepresentation
        let digest = Array(SHA256.hash(data: publicKey))
        keyID = digest.prefix(20).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
        let number = digest.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
        clientID = String(number)
        self.projectID = projectID
        self.tokenURI = tokenURI
        clientEmail = "martlet-\(keyID.prefix(8))@\(projectID)\(Self.emailDomain)"
    }

    /// The file's text.
    public var json: String {
        let members: [(String, String)] = [
            ("type", "service_account"), ("project_id", projectID), ("private_key_id", keyID),
            ("private_key", privateKey + "\n"), ("client_email", clientEmail),
            ("client_id", clientID), ("token_uri", tokenURI),
        ]
        let lines = members.map { "  \(JSONValue.string($0).text): \(JSONValue.string($1).text)" }
        return "{\n" + lines.joined(separator: ",\n") + "\n}"
    }
}
