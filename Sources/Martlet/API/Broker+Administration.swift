// SPDX-License-Identifier: Apache-2.0
//
// Administration by an embedder. The requests that an administrator on a connection has too are extensions of
// `AdministratorInterface`; projects and instances as the broker's process alone sees them are here. Rests on Broker.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
public import MartletWire

extension Broker: AdministratorInterface {
    /// `MartletError`: the refusal of a request, or the reason why the broker cannot serve it.
    public typealias Failure = MartletError

    /// The way of an administrator's requests to this broker.
    public var requests: RequestPort<MartletError> {
        RequestPort(EmbeddedRequests(broker: self, projectID: nil))
    }

    // MARK: Projects

    /// Finds a project by its ID.
    /// - Throws: `NOT_FOUND`.
    public func project(_ id: String) throws(MartletError) -> ProjectSummary {
        ProjectSummary(try ask { try Authentication.project(id: id, in: $0) }, limits)
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
        let number = try await number(of: project)
        let (ordinal, holder) = try await holder(of: token, in: number)
        guard let holder else { throw .unexpected }
        let outcome = try await perform(
            .rotate(
                project: number, ordinal: ordinal, holder: holder, token: Credentials.token()))
        guard case .rotated(let new) = outcome else { throw .unexpected }
        return new.text
    }

    /// An instance by its token, and who holds it now.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project.
    func holder(
        of token: String, in number: ProjectNumber
    ) async throws(MartletError) -> (Ordinal, Holder?) {
        try await ask { (transaction) throws in
            let ordinal = try Listing.locate(token, in: number, transaction)
            return (ordinal, try transaction.instances.instance(ordinal, in: number)?.holder)
        }
    }

    /// Deletes an instance with its subscriptions, mailbox and token, and ends the instance's connection.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project, `INVALID_ARGUMENT` for text
    ///   that is no token.
    public func unregister(_ token: String, in project: String) async throws(MartletError) {
        _ = try await perform(UnregisterTokenRequest(token: token), in: project)
    }
}
