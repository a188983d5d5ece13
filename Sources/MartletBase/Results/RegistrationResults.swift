// SPDX-License-Identifier: Apache-2.0
//
// Answers to an administrator's requests about who may register (REG-7) and about apps (REG-8), as plain values: the
// broker, the wire and the client have these types in common. Rests on RegistrationPolicy.

/// A ticket key without its secret.
public struct TicketKeySummary: Sendable, Hashable {
    /// ID of the key: the `kid` of its tickets.
    public var id: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Algorithm of the key's tickets.
    public var algorithm: TicketAlgorithm
    /// Instant at which the key was added.
    public var created: Instant
    /// True for a revoked key. A revoked key stays in the list, and the key's tickets are refused.
    public var isRevoked: Bool

    package init(
        id: String, name: String, algorithm: TicketAlgorithm, created: Instant, isRevoked: Bool
    ) {
        self.id = id
        self.name = name
        self.algorithm = algorithm
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// An app of a project.
public struct AppSummary: Sendable, Hashable {
    /// Package name or bundle ID.
    public var name: String
    /// Platform of the app.
    public var platform: Platform
    /// Registered instances.
    public var instanceCount: UInt64
    /// True for a deleted app with instances that are still to be unregistered.
    public var isBeingDeleted: Bool

    package init(name: String, platform: Platform, instanceCount: UInt64, isBeingDeleted: Bool) {
        self.name = name
        self.platform = platform
        self.instanceCount = instanceCount
        self.isBeingDeleted = isBeingDeleted
    }
}
