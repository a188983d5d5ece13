// SPDX-License-Identifier: Apache-2.0
//
// The service-account file for SDKs (REG-5): a new RSA key, and the address at which an SDK exchanges signed
// assertions for access tokens. Only the file holds the private half of the key. Rests on MartletCrypto.

import MartletBase
import MartletCrypto

/// A new service-account key, private half included.
public struct ServiceAccountFile: Sendable {
    /// ID of the project for which the key's owner sends.
    public let projectID: String
    /// The first 20 bytes of the public key's SHA-256 digest, in hexadecimal.
    public let keyID: String
    /// Issuer of the key's assertions: `martlet-DIGITS@PROJECT.iam.gserviceaccount.com`, where DIGITS are the first
    /// eight digits of `keyID`.
    public let clientEmail: String
    /// The public key for the broker: SubjectPublicKeyInfo in DER.
    public let publicKey: [UInt8]
    private let clientID: String
    private let privateKey: String
    private let tokenURI: String

    /// The part of `clientEmail` behind the project's ID.
    package static let emailDomain = ".iam.gserviceaccount.com"

    /// Makes a new pair of RSA keys of 2048 bits.
    /// - Parameter tokenURI: address of the gateway's `/token`, as SDKs reach it.
    /// - Throws: libcrypto's error if the key cannot be made.
    public init(projectID: String, tokenURI: String) throws {
        let key = try RSAKeyPair()
        publicKey = key.publicKey
        privateKey = key.privateKey
        let digest = SHA256.hash(publicKey)
        keyID = digest.prefix(20).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
        let number = digest.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
        clientID = String(number)
        self.projectID = projectID
        self.tokenURI = tokenURI
        clientEmail = "martlet-\(keyID.prefix(8))@\(projectID)\(Self.emailDomain)"
    }

    /// The text of the file: a JSON object.
    public var json: String {
        let members: [(String, String)] = [
            ("type", "service_account"), ("project_id", projectID), ("private_key_id", keyID),
            ("private_key", privateKey), ("client_email", clientEmail),
            ("client_id", clientID), ("token_uri", tokenURI),
        ]
        let lines = members.map { "  \(JSONValue.string($0).text): \(JSONValue.string($1).text)" }
        return "{\n" + lines.joined(separator: ",\n") + "\n}"
    }
}
