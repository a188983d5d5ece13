// SPDX-License-Identifier: Apache-2.0
//
// Projects, server keys and instances. Rests on Broker.

import MartletEngine
import MartletRows
import MartletStore

extension Broker {
    // MARK: Projects

    /// Creates a project.
    /// - Parameters:
    ///   - id: 1 to 64 characters of `[a-z0-9-]`.
    ///   - conditionTopicsMax: CON-3: limit of distinct topics in a condition, 1 to 64.
    ///   - registration: REG-7: what a new device must present. With `key`, make a registration key next.
    /// - Throws: `ALREADY_EXISTS`, `INVALID_ARGUMENT`.
    public func createProject(
        _ id: String, conditionTopicsMax: Int = Limits.conditionTopicsMax,
        registration: RegistrationPolicy = .key
    ) async throws(MartletError) -> ProjectSummary {
        let outcome = try await perform(
            .createProject(
                id: id, senderID: Credentials.senderID(), conditionTopicsMax: conditionTopicsMax,
                registration: registration))
        guard case .project(let project) = outcome else { throw .unexpected }
        return ProjectSummary(project)
    }

    /// Changes the settings of a project, with immediate effect. nil keeps a setting.
    /// - Parameters:
    ///   - weight: FAN-2: share of capacity relative to other projects, 1 to 1000.
    ///   - overload: FAN-1: whether a message is deferred or refused while too many fanouts of the project are
    ///     in progress.
    ///   - conditionTopicsMax: CON-3: limit of distinct topics in a condition, 1 to 64.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    @discardableResult
    public func changeProject(
        _ id: String, weight: Int? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: Int? = nil
    ) async throws(MartletError) -> ProjectSummary {
        let outcome = try await perform(
            .changeProject(
                id: id, weight: weight, overload: overload,
                conditionTopicsMax: conditionTopicsMax))
        guard case .project(let project) = outcome else { throw .unexpected }
        return ProjectSummary(project)
    }

    /// FAN-8: the load of each project, the project with most fanouts in progress first, at most 1000 projects.
    /// - Throws: `UNAVAILABLE` if the store cannot be read.
    public func projectStatuses() throws(MartletError) -> [ProjectStatus] {
        do { return try gauges.projects() } catch { throw .unreadable(error) }
    }

    /// FAN-8: fanouts in progress and deferred messages, project by project. The deferred messages of a project
    /// follow its fanouts.
    /// - Parameters:
    ///   - project: ID of a project; nil: all projects.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    public func fanouts(
        in project: String? = nil, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<FanoutSummary> {
        var only: ProjectNumber?
        if let project { only = try number(of: project) }
        do {
            return try gauges.fanouts(of: only, after: after, limit: limit)
        } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }

    /// All projects, in the order of their IDs.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `INVALID_ARGUMENT` for the limit.
    public func projects(
        after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<ProjectSummary> {
        let page = try ask { try Listing.projects(after: after, limit: limit, $0) }
        return ListPage(
            entries: page.entries.map { ProjectSummary($0) },
            next: page.hasMore ? page.entries.last?.id : nil)
    }

    /// Finds a project by its ID.
    /// - Throws: `NOT_FOUND`.
    public func project(_ id: String) throws(MartletError) -> ProjectSummary {
        ProjectSummary(try ask { try Authentication.project(id: id, in: $0) })
    }

    func number(of id: String) throws(MartletError) -> ProjectNumber {
        try ask { try Authentication.project(id: id, in: $0) }.number
    }

    // MARK: Server keys (REG-5)

    /// Creates a server key for a project. The text of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createServerKey(
        named name: String, in project: String
    ) async throws(MartletError) -> NewServerKey {
        let key = Credentials.serverKey()
        _ = try await perform(
            .createKey(
                project: project,
                key: NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))))
        return NewServerKey(id: key.id, text: key.text)
    }

    /// Revokes a server key. New connections with the key are refused, and the loops end the connections that
    /// were opened with the key (REG-9).
    /// - Throws: `NOT_FOUND`.
    public func revokeServerKey(_ id: String, in project: String) async throws(MartletError) {
        _ = try await perform(.revokeKey(project: project, keyID: id))
    }

    /// All server keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func serverKeys(in project: String) throws(MartletError) -> [ServerKeySummary] {
        let keys = try ask {
            try $0.projects.serverKeys(of: try Authentication.project(id: project, in: $0).number)
        }
        return keys.map {
            ServerKeySummary(
                id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }

    // MARK: Instances (REG-1, REG-3)

    /// Registers an instance of an app for the embedding program, whatever the project's policy (REG-7). The first
    /// instance of an app creates the app.
    /// - Parameter app: package name or bundle ID, 1 to 255 bytes of `[a-zA-Z0-9-_.~%]`.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for too many apps or
    ///   instances.
    public func register(
        app: String, platform: Platform, in project: String
    ) async throws(MartletError) -> InstanceCredentials {
        let deviceKey = Credentials.deviceKey()
        let outcome = try await perform(
            .register(
                NewInstance(
                    project: project, app: app, platform: platform, token: Credentials.token(),
                    keyDigest: Credentials.digest(deviceKey), proof: .trusted)))
        guard case .registered(let instance, _) = outcome else { throw .unexpected }
        return InstanceCredentials(token: instance.token.text, deviceKey: deviceKey)
    }

    /// Finds an instance by its token.
    /// - Throws: `NOT_FOUND` for the project, and for a token that is not registered in the project;
    ///   `INVALID_ARGUMENT` for text that is no token.
    public func instance(
        _ token: String, in project: String
    ) throws(MartletError) -> InstanceSummary {
        let number = try number(of: project)
        let found = try ask { try Listing.instance(token, in: number, $0) }
        return InstanceSummary(
            app: found.app.name, platform: found.app.platform,
            registered: found.instance.registered)
    }

    /// REG-4: gives an instance a new token and returns the new token. The old token is `UNREGISTERED` from
    /// then on. Subscriptions, mailbox and device key stay. A device that did not ask for the new token learns
    /// of the change on its next connection.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project.
    public func rotateToken(
        _ token: String, in project: String
    ) async throws(MartletError) -> String {
        let number = try number(of: project)
        let (ordinal, holder) = try ask { (transaction) throws in
            let ordinal = try Listing.locate(token, in: number, transaction)
            return (ordinal, try transaction.instances.instance(ordinal, in: number)?.holder)
        }
        guard let holder else { throw .unexpected }
        let outcome = try await perform(
            .rotate(
                project: number, ordinal: ordinal, holder: holder, token: Credentials.token()))
        guard case .rotated(let new) = outcome else { throw .unexpected }
        return new.text
    }

    /// Deletes an instance with its subscriptions, mailbox and token, and ends the instance's connection.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project, `INVALID_ARGUMENT` for text
    ///   that is no token.
    public func unregister(_ token: String, in project: String) async throws(MartletError) {
        _ = try await perform(.unregisterToken(project: try number(of: project), token: token))
    }
}

extension MartletError {
    static var unexpected: MartletError {
        MartletError(.internal, "The engine answered something else than was asked.")
    }
}
