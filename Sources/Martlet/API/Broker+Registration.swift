// SPDX-License-Identifier: Apache-2.0
//
// Who may register (REG-7), the apps of a project (REG-8), and the topics that devices choose themselves (TOP-10).
// Rests on Broker.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletTicket

extension Broker {
    // MARK: Policies

    /// REG-7, TOP-10: the rules of a project for its devices.
    /// - Throws: `NOT_FOUND`.
    public func policies(of project: String) throws(MartletError) -> ProjectPolicies {
        let number = try number(of: project)
        return try ask { try $0.registrations.policies(of: number) }
    }

    /// REG-7, TOP-10: changes the rules of a project for its devices, with immediate effect for later registrations
    /// and subscriptions. nil keeps a rule. Instances and subscriptions stay.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT` for prefixes.
    public func setPolicies(
        registration: RegistrationPolicy? = nil, topics: TopicPolicy? = nil, in project: String
    ) async throws(MartletError) {
        try await change(.policies(registration: registration, topics: topics), in: project)
    }

    // MARK: Registration keys (REG-7)

    /// Creates a registration key, which lies in the app and lets devices register, and nothing else. The text of the
    /// key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createRegistrationKey(
        named name: String, in project: String
    ) async throws(MartletError) -> NewRegistrationKey {
        let key = Credentials.serverKey()
        try await change(
            .createRegistrationKey(
                NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))), in: project)
        return NewRegistrationKey(id: key.id, text: key.text)
    }

    /// Revokes a registration key. New devices with the key are refused; registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeRegistrationKey(_ id: String, in project: String) async throws(MartletError) {
        try await change(.revokeRegistrationKey(id: id), in: project)
    }

    /// All registration keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func registrationKeys(
        in project: String
    ) throws(MartletError) -> [RegistrationKeySummary] {
        let number = try number(of: project)
        return try ask { try $0.registrations.registrationKeys(of: number) }.map {
            RegistrationKeySummary(
                id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }

    // MARK: Ticket keys (REG-7)

    /// Adds a key that verifies tickets: the secret that the app's server signs HS256 tickets with. The broker's data
    /// folder has the secret itself.
    /// - Parameters:
    ///   - secret: 32 to 2048 bytes.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketSecret(
        _ secret: [UInt8], id: String, named name: String = "", in project: String
    ) async throws(MartletError) {
        try await addTicketKey(.hs256, secret, id, name, project)
    }

    /// Adds a key that verifies tickets: the public half of the key that the app's server signs with.
    /// - Parameters:
    ///   - publicKey: the text from `BEGIN PUBLIC KEY` to `END PUBLIC KEY`: RSA for RS256, P-256 for ES256.
    ///   - algorithm: `rs256` or `es256`.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketKey(
        _ publicKey: String, for algorithm: TicketAlgorithm, id: String, named name: String = "",
        in project: String
    ) async throws(MartletError) {
        guard algorithm != .hs256 else {
            throw MartletError(
                .invalidArgument, "HS256 has a secret and no public key.", field: "ticket_key")
        }
        try await addTicketKey(algorithm, try PublicKeyText.der(publicKey), id, name, project)
    }

    private func addTicketKey(
        _ algorithm: TicketAlgorithm, _ material: [UInt8], _ id: String, _ name: String,
        _ project: String
    ) async throws(MartletError) {
        _ = try VerificationKey(validating: material, for: algorithm)
        try await change(
            .createTicketKey(
                NewTicketKey(id: id, name: name, algorithm: algorithm, material: material)),
            in: project)
    }

    /// Revokes a ticket key. Its tickets are refused from then on; registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeTicketKey(_ id: String, in project: String) async throws(MartletError) {
        try await change(.revokeTicketKey(id: id), in: project)
    }

    /// All ticket keys of a project, including revoked keys, without secrets.
    /// - Throws: `NOT_FOUND`.
    public func ticketKeys(in project: String) throws(MartletError) -> [TicketKeySummary] {
        let number = try number(of: project)
        return try ask { try $0.registrations.ticketKeys(of: number) }.map {
            TicketKeySummary(
                id: $0.id, name: $0.name, algorithm: $0.algorithm, created: $0.created,
                isRevoked: $0.isRevoked)
        }
    }

    // MARK: Apps (REG-8)

    /// Makes an app. Only a project with the policy `open` needs the call, because otherwise the first registration
    /// makes the app.
    /// - Parameter name: package name or bundle ID, 1 to 255 bytes of `[a-zA-Z0-9-_.~%]`.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more
    ///   than 512 apps, `UNAVAILABLE` while the app is being deleted.
    public func createApp(
        _ name: String, on platform: Platform, in project: String
    ) async throws(MartletError) {
        try await change(.createApp(name: name, platform: platform), in: project)
    }

    /// Deletes an app. The call returns when the deletion has begun and survives a crash. The broker then unregisters
    /// the app's instances, some in each transaction, and the app's place is free after the last.
    /// - Throws: `NOT_FOUND`.
    public func deleteApp(
        _ name: String, on platform: Platform, in project: String
    ) async throws(MartletError) {
        try await change(.deleteApp(name: name, platform: platform), in: project)
    }

    /// The apps that take a place of the project, in the order of their creation.
    /// - Throws: `NOT_FOUND`.
    public func apps(in project: String) throws(MartletError) -> [AppSummary] {
        try ask { (transaction) throws in
            let project = try Authentication.project(id: project, in: transaction)
            return try transaction.apps.apps(of: project).map { (app, isLeaving) throws in
                AppSummary(
                    name: app.name, platform: app.platform,
                    instanceCount: try transaction.sets.memberCount(
                        of: .app(app.number), in: project.number),
                    isBeingDeleted: isLeaving)
            }
        }
    }

    private func change(
        _ change: RegistryChange, in project: String
    ) async throws(MartletError) {
        _ = try await perform(.changeRegistry(project: project, change))
    }
}

/// A new registration key with its text. The broker stores only a digest, so the text is told here and never again.
public struct NewRegistrationKey: Sendable, Hashable {
    /// ID of the key: the part of `text` before the dot.
    public var id: String
    /// `ID.SECRET`, as a new device presents the key.
    public var text: String
}

/// A registration key without its secret.
public struct RegistrationKeySummary: Sendable, Hashable {
    /// ID of the key, by which `Broker.revokeRegistrationKey(_:in:)` finds the key.
    public var id: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Creation of the key.
    public var created: Instant
    /// Whether new devices with the key are refused.
    public var isRevoked: Bool
}

/// A ticket key without its secret.
public struct TicketKeySummary: Sendable, Hashable {
    /// ID of the key: the `kid` of its tickets.
    public var id: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Algorithm of the key's tickets.
    public var algorithm: TicketAlgorithm
    /// Creation of the key.
    public var created: Instant
    /// Whether the key's tickets are refused.
    public var isRevoked: Bool
}

/// An app of a project.
public struct AppSummary: Sendable, Hashable {
    /// Package name or bundle ID.
    public var name: String
    /// Platform of the app.
    public var platform: Platform
    /// Registered instances.
    public var instanceCount: UInt64
    /// Whether the app was deleted, and some of its instances are still to be unregistered.
    public var isBeingDeleted: Bool
}
