// SPDX-License-Identifier: Apache-2.0
//
// Management of projects and keys with the administrator key. Rests on `RequestClient`.

public import MartletBase
public import MartletWire

/// An administrator of one project or of no project.
public final class MartletAdministrator: Sendable {
    /// The project named at the connection; empty for none.
    public let projectID: String
    private let client: RequestClient

    /// Makes an administrator. The first request opens the connection.
    public init(
        host: String, port: Int = Limits.defaultPort, administratorKey: String,
        projectID: String = "", options: ClientOptions = ClientOptions()
    ) {
        self.projectID = projectID
        client = options.client(
            host: host, port: port,
            hello: .administrator(administratorKey: administratorKey, projectID: projectID))
    }

    /// A sender of the named project on the administrator's connection.
    public var sender: MartletSender { MartletSender(projectID: projectID, client: client) }

    /// Connects unless the connection is open.
    /// - Returns: the broker's WELCOME.
    @discardableResult
    public func connect() async throws -> Welcome { try await client.connect() }

    /// Closes the connection for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }

    /// Creates a project, with a registration key for its devices (REG-7). The broker tells the key only once.
    /// - Parameter conditionTopicsMax: CON-3, topics that a condition may name; 0 is the default, 5.
    public func createProject(
        _ projectID: String, conditionTopicsMax: UInt8 = 0
    ) async throws -> (project: ProjectRecord, registrationKey: String) {
        let answer = try await client.request { correlation in
            .createProject(
                CreateProjectRequest(
                    correlation: correlation, projectID: projectID,
                    conditionTopicsMax: conditionTopicsMax))
        }
        guard case .project(let result) = answer else { throw unexpected(answer) }
        return (result.project, result.registrationKey)
    }

    /// Changes a project's weight, overload policy and limit of topics in a condition; nil leaves a setting
    /// unchanged.
    @discardableResult
    public func changeProject(
        _ projectID: String, weight: UInt32? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: UInt8? = nil
    ) async throws -> ProjectRecord {
        let answer = try await client.request { correlation in
            .changeProject(
                ChangeProjectRequest(
                    correlation: correlation, projectID: projectID, weight: weight,
                    overload: overload, conditionTopicsMax: conditionTopicsMax))
        }
        guard case .project(let result) = answer else { throw unexpected(answer) }
        return result.project
    }

    /// FAN-8: a page of the fanouts in progress and the deferred messages, of one project or, with an empty ID, of
    /// all.
    public func fanouts(
        ofProject projectID: String = "", cursor: String = "", limit: UInt16 = 1000
    ) async throws -> FanoutPage {
        let answer = try await client.request { correlation in
            .question(
                .listFanouts(
                    ListFanoutsRequest(
                        correlation: correlation, projectID: projectID, cursor: cursor, limit: limit
                    )))
        }
        guard case .fanoutPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// The present state of the broker.
    public func status() async throws -> StatusResult {
        let answer = try await client.request { correlation in
            .question(.status(StatusRequest(correlation: correlation)))
        }
        guard case .statusResult(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// A page of the projects in order of ID, after the ID `after`.
    public func projects(after: String = "", limit: UInt16 = 1000) async throws -> ProjectPage {
        let answer = try await client.request { correlation in
            .question(
                .listProjects(
                    ListProjectsRequest(correlation: correlation, after: after, limit: limit)))
        }
        guard case .projectPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// Creates a server key. The broker tells the key's text only once.
    public func createKey(
        name: String, inProject projectID: String
    ) async throws -> (keyID: String, serverKey: String) {
        let answer = try await client.request { correlation in
            .createKey(
                CreateKeyRequest(correlation: correlation, projectID: projectID, name: name))
        }
        guard case .key(let result) = answer else { throw unexpected(answer) }
        return (result.keyID, result.serverKey)
    }

    /// Revokes a server key.
    public func revokeKey(_ keyID: String, inProject projectID: String) async throws {
        let answer = try await client.request { correlation in
            .revokeKey(
                RevokeKeyRequest(correlation: correlation, projectID: projectID, keyID: keyID))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    /// The server keys of a project, without the secrets.
    public func keys(inProject projectID: String) async throws -> [KeyPage.Entry] {
        let answer = try await client.request { correlation in
            .question(.listKeys(ListKeysRequest(correlation: correlation, projectID: projectID)))
        }
        guard case .keyPage(let page) = answer else { throw unexpected(answer) }
        return page.keys
    }

    /// Registers the public half of a service-account key.
    /// - Parameter publicKey: an RSA SubjectPublicKeyInfo in DER.
    public func createServiceAccount(
        keyID: String, name: String, clientEmail: String, publicKey: [UInt8],
        inProject projectID: String
    ) async throws {
        let answer = try await client.request { correlation in
            .createServiceAccount(
                CreateServiceAccountRequest(
                    correlation: correlation, projectID: projectID, keyID: keyID, name: name,
                    clientEmail: clientEmail, publicKey: publicKey))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    /// Revokes a service-account key, with every access token minted from the key.
    public func revokeServiceAccount(
        _ keyID: String, inProject projectID: String
    ) async throws {
        let answer = try await client.request { correlation in
            .revokeServiceAccount(
                RevokeServiceAccountRequest(
                    correlation: correlation, projectID: projectID, keyID: keyID))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    /// The service-account keys of a project.
    public func serviceAccounts(
        inProject projectID: String
    ) async throws -> [ServiceAccountPage.Entry] {
        let answer = try await client.request { correlation in
            .question(
                .listServiceAccounts(
                    ListServiceAccountsRequest(correlation: correlation, projectID: projectID)))
        }
        guard case .serviceAccountPage(let page) = answer else { throw unexpected(answer) }
        return page.accounts
    }
}
