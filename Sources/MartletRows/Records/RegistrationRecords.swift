// SPDX-License-Identifier: Apache-2.0
//
// The records that decide about registrations: registration keys and ticket keys. Rests on
// MartletBase.

public import MartletBase

/// REG-7: a registration key. The creation request returns the text once; only its digest is kept.
public struct RegistrationKey: Sendable {
    /// ID of the key.
    public var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// Digest of the key's text.
    public var digest: SecretDigest
    /// Creation of the key.
    public var created: Instant
    /// Whether the key is revoked. The record of a revoked key stays.
    public var isRevoked: Bool

    public init(
        id: String, name: String, digest: SecretDigest, created: Instant, isRevoked: Bool = false
    ) {
        self.id = id
        self.name = name
        self.digest = digest
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// REG-7: a key that verifies tickets.
public struct TicketKey: Sendable {
    /// ID of the key: the `kid` of its tickets.
    public var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// Algorithm of the key's tickets. A ticket of another algorithm is refused.
    public var algorithm: TicketAlgorithm
    /// The secret of HS256, or a SubjectPublicKeyInfo in DER.
    public var material: [UInt8]
    /// Creation of the key.
    public var created: Instant
    /// Whether the key is revoked. The record of a revoked key stays, without its material.
    public var isRevoked: Bool

    public init(
        id: String, name: String, algorithm: TicketAlgorithm, material: [UInt8], created: Instant,
        isRevoked: Bool = false
    ) {
        self.id = id
        self.name = name
        self.algorithm = algorithm
        self.material = material
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// GW-13: a channel of a Web Push user agent.
public struct AgentChannel: Sendable, Hashable {
    /// Bytes of a channel: a UUID.
    public static let channelBytes = 16

    /// The digest of the user agent's secret ID, then the channel: the key of the channel in the store.
    public let bytes: [UInt8]

    /// - Parameters:
    ///   - agent: SHA-256 of the user agent's secret ID.
    ///   - channel: `channelBytes` bytes.
    public init(agent: SecretDigest, channel: [UInt8]) {
        precondition(channel.count == Self.channelBytes, "A channel is a UUID.")
        bytes = agent.bytes + channel
    }

    /// SHA-256 of the user agent's secret ID.
    public var agent: SecretDigest { SecretDigest(bytes: Array(bytes.prefix(32))) }
    /// The bytes of the channel's UUID.
    public var channel: [UInt8] { Array(bytes.dropFirst(32)) }
}
