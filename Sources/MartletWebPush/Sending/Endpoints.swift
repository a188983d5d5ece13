// SPDX-License-Identifier: Apache-2.0
//
// Makes and checks the URLs that we give out. Each is a capability: a code made with our secret proves that the URL is
// ours, so we needn't store it. The code of a restricted subscription includes the application server's key, so nobody can
// turn its endpoint into a free one, or into one for another key.
//
//   /wpush/f/TOKEN‖TAG   free        tag = HMAC(secret, "f" ‖ token)
//   /wpush/b/TOKEN‖TAG   restricted  tag = HMAC(secret, "b" ‖ token ‖ SHA-256(key))
//   /wpush/m/NUMBER‖TAG  a message   tag = HMAC(secret, "m" ‖ number)
//
// Rests on MartletCrypto.

import Martlet
import MartletCrypto

/// Makes and verifies endpoints and message URLs.
struct Endpoints: Sendable {
    /// The parts of an endpoint.
    struct Endpoint: Sendable, Hashable {
        var token: Token
        /// Whether only one application server's key may send.
        var isBound: Bool
        fileprivate var tag: [UInt8]
    }

    private static let tokenBytes = Limits.tokenRandomBytes
    private static let tagBytes = 16
    private static let numberBytes = 8

    private let key: AuthenticationKey
    private let origin: String

    /// - Parameter secret: what all codes are made with.
    init(secret: [UInt8], origin: PushOrigin) {
        key = AuthenticationKey(secret)
        self.origin = origin.description
    }

    // MARK: Endpoints

    /// The URL of a subscription.
    /// - Parameter publicKey: the key of the one application server that may send; nil if anybody with the URL may.
    func url(of token: Token, for publicKey: [UInt8]?) -> String {
        let bytes = token.bytes + tag(of: token, for: publicKey)
        return "\(origin)/wpush/\(publicKey == nil ? "f" : "b")/\(Base64URL.encode(bytes))"
    }

    /// Takes an endpoint apart. A restricted one's code can't be checked yet, because that takes the key.
    /// - Returns: nil if the text isn't an endpoint, or is a free one that isn't ours.
    func endpoint(_ text: String, isBound: Bool) -> Endpoint? {
        guard let bytes = Base64URL.decode(text), bytes.count == Self.tokenBytes + Self.tagBytes
        else { return nil }
        let found = Endpoint(
            token: Token(bytes: Array(bytes.prefix(Self.tokenBytes))), isBound: isBound,
            tag: Array(bytes.suffix(Self.tagBytes)))
        return isBound || isMade(found, for: nil) ? found : nil
    }

    /// Whether we made an endpoint for this key.
    func isMade(_ endpoint: Endpoint, for publicKey: [UInt8]?) -> Bool {
        Self.isEqual(endpoint.tag, tag(of: endpoint.token, for: publicKey))
    }

    private func tag(of token: Token, for publicKey: [UInt8]?) -> [UInt8] {
        guard let publicKey else { return code("f", token.bytes) }
        return code("b", token.bytes + SHA256.hash(publicKey))
    }

    // MARK: Messages

    /// The URL of a message.
    func url(ofMessage number: UInt64) -> String {
        let bytes = Self.bytes(number)
        return "\(origin)/wpush/m/\(Base64URL.encode(bytes + code("m", bytes)))"
    }

    /// The number in a message's URL.
    /// - Returns: nil if the URL isn't ours.
    func message(_ text: String) -> UInt64? {
        guard let bytes = Base64URL.decode(text), bytes.count == Self.numberBytes + Self.tagBytes
        else { return nil }
        let number = Array(bytes.prefix(Self.numberBytes))
        guard Self.isEqual(Array(bytes.suffix(Self.tagBytes)), code("m", number)) else {
            return nil
        }
        return number.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        (0..<numberBytes).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) }
    }

    // MARK: Devices

    /// The device key of one of the door's instances. Worked out each time, so we keep no copy.
    func deviceKey(of token: Token) -> String {
        Base64URL.encode(key.code(of: Array("k".utf8) + token.bytes))
    }

    private func code(_ kind: String, _ bytes: [UInt8]) -> [UInt8] {
        Array(key.code(of: Array(kind.utf8) + bytes).prefix(Self.tagBytes))
    }

    /// Compares in constant time.
    private static func isEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && zip(one, other).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
