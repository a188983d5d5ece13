// SPDX-License-Identifier: Apache-2.0
//
// Projects and server keys, for whoever holds the administrator key. Rests on `RequestClient`.

public import MartletBase
public import MartletWire

/// An administrator, of one project or of none.
public final class MartletAdministrator: Sendable {
    /// The project it named, or empty.
    public let projectID: String
    private let client: RequestClient

    /// Makes an administrator that connects with its first request.
    public init(
        host: String, port: Int = Limits.defaultPort, administratorKey: String,
        projectID: String = "", options: ClientOptions = ClientOptions()
    ) {
        self.projectID = projectID
        client = options.client(
            host: host, port: port,
            hello: .administrator(administratorKey: administratorKey, projectID: projectID))
    }

    /// What a sender of the named project may do, on the same connection.
    public var sender: MartletSender { MartletSender(projectID: projectID, client: client) }

    /// Connects if it is not connected, and tells what the broker said.
    @discardableResult
    public func connect() async throws -> Welcome { try await client.connect() }

    /// Closes for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }

    /// Makes a project. 0 topics per condition is the default, 5.
    public func createProject(
        _ projectID: String, conditionTopicsMax: UInt8 = 0
    ) async throws -> ProjectRecord {
        let answer = try await client.request { correlation in
            .createProject(
                CreateProjectRequest(
                    correlation: correlation, projectID: projectID,
                    conditionTopicsMax: conditionTopicsMax))
        }
        guard case .project(let result) = answer else { throw unexpected(answer) }
        return result.project
    }

    /// Changes what a project may have of the broker; nil leaves it as it is.
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

    /// FAN-8: a page of the messages on their way to many instances, of one project or of all.
    public func fanouts(
        ofProject projectID: String = "", cursor: String = "", limit: UInt16 = 1000
    ) async throws -> FanoutPage {
        let answer = try await client.request { correlation in
            .listFanouts(
                ListFanoutsRequest(
                    correlation: correlation, projectID: projectID, cursor: cursor, limit: limit))
        }
        guard case .fanoutPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// What the broker does at this moment.
    public func status() async throws -> StatusResult {
        let answer = try await client.request { correlation in
            .status(StatusRequest(correlation: correlation))
        }
        guard case .statusResult(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// A page of the projects, after an ID.
    public func projects(after: String = "", limit: UInt16 = 1000) async throws -> ProjectPage {
        let answer = try await client.request { correlation in
            .listProjects(ListProjectsRequest(correlation: correlation, after: after, limit: limit))
        }
        guard case .projectPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// Makes a server key. The key is told this once.
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

    /// Makes a server key invalid.
    public func revokeKey(_ keyID: String, inProject projectID: String) async throws {
        let answer = try await client.request { correlation in
            .revokeKey(
                RevokeKeyRequest(correlation: correlation, projectID: projectID, keyID: keyID))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    /// The server keys of a project, without their secrets.
    public func keys(inProject projectID: String) async throws -> [KeyPage.Entry] {
        let answer = try await client.request { correlation in
            .listKeys(ListKeysRequest(correlation: correlation, projectID: projectID))
        }
        guard case .keyPage(let page) = answer else { throw unexpected(answer) }
        return page.keys
    }

    /// Makes a service-account key known by its public half.
    /// - Parameter publicKey: an RSA SubjectPublicKeyInfo, in DER.
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

    /// Makes a service-account key invalid, and every access token minted from it.
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
            .listServiceAccounts(
                ListServiceAccountsRequest(correlation: correlation, projectID: projectID))
        }
        guard case .serviceAccountPage(let page) = answer else { throw unexpected(answer) }
        return page.accounts
    }
}
