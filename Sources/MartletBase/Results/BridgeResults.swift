// SPDX-License-Identifier: Apache-2.0
//
// A project's keys for push services (GW-11), as an administrator sees them. Rests on BridgeKind.

/// A project's key for a push service, without its secret half.
public struct BridgeKeySummary: Sendable, Hashable {
    /// The service that the key is for.
    public var kind: BridgeKind
    /// ID of the key: Apple's key ID, or the public key of a pair for Web Push.
    public var id: String
    /// Apple's team ID, or the contact of a pair for Web Push.
    public var owner: String
    /// When the key was added or replaced.
    public var created: Instant

    public init(kind: BridgeKind, id: String, owner: String, created: Instant) {
        self.kind = kind
        self.id = id
        self.owner = owner
        self.created = created
    }
}
