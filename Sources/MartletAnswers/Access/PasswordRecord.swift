// SPDX-License-Identifier: Apache-2.0
//
// What the data folder keeps of a password: the salt, the cost and the digest. Rests on Scrypt.

package import Martlet
import MartletCrypto

/// The digest of a password.
package struct PasswordRecord: Codable, Sendable, Hashable {
    /// Cost of a new digest: 2^15 blocks, 32 MiB and some 60 ms. Source: OWASP Password Storage (2^15 with r 8, p 3,
    /// or more memory); a console has few logins, and answers one at a time.
    private static let cost = 15

    private let salt: String
    private let cost: Int
    private let digest: String

    /// Makes the record of a password.
    /// - Throws: `INVALID_ARGUMENT` for a password outside 8 to 256 bytes, `INTERNAL` without memory.
    package init(of password: String) throws(MartletError) {
        guard
            (Limits.consolePasswordBytesMin...Limits.consolePasswordBytesMax)
                .contains(password.utf8.count)
        else {
            throw MartletError(
                .invalidArgument,
                "A password has \(Limits.consolePasswordBytesMin) to "
                    + "\(Limits.consolePasswordBytesMax) bytes.", field: "password")
        }
        let salt = RandomBytes.make(16)
        guard let digest = Scrypt.hash(password, salt: salt, cost: Self.cost) else {
            throw MartletError(.internal, "There is no memory for the digest of the password.")
        }
        self.salt = Base64URL.encode(salt)
        self.digest = Base64URL.encode(digest)
        cost = Self.cost
    }

    /// Whether a password is the one of the record. A call takes some 60 ms of a core.
    package func isRight(_ password: String) -> Bool {
        guard let salt = Base64URL.decode(salt), let digest = Base64URL.decode(digest),
            password.utf8.count <= Limits.consolePasswordBytesMax,
            let found = Scrypt.hash(password, salt: salt, cost: cost)
        else { return false }
        return Scrypt.isEqual(found, digest)
    }

    /// A record of no password. A login with an unknown name takes as long as a login with a known name.
    package static let ofNobody = PasswordRecord(
        salt: Base64URL.encode([UInt8](repeating: 0, count: 16)), cost: cost,
        digest: Base64URL.encode([UInt8](repeating: 0, count: Scrypt.bytesCount)))

    private init(salt: String, cost: Int, digest: String) {
        self.salt = salt
        self.cost = cost
        self.digest = digest
    }
}

/// Random bytes for secrets, from the system.
package enum RandomBytes {
    package static func make(_ count: Int) -> [UInt8] {
        var source = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &source) }
    }
}
