// SPDX-License-Identifier: Apache-2.0
//
// An administrator on a connection, with the administrator key. The requests are extensions of
// `AdministratorInterface`. Rests on `RequestClient`.

public import MartletBase
public import MartletWire

/// An administrator of one project or of no project.
public final class MartletAdministrator: AdministratorInterface {
    /// `MartletError`, or `CancellationError` for a cancelled task.
    public typealias Failure = any Error

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

    /// The way of the requests on the administrator's connection.
    public var requests: RequestPort<any Error> { RequestPort(client) }

    /// A sender of the named project on the administrator's connection.
    public var sender: MartletSender { MartletSender(projectID: projectID, client: client) }

    /// Connects unless the connection is open.
    /// - Throws: the broker's refusal, such as `UNAUTHENTICATED` for a wrong key.
    public func connect() async throws { _ = try await client.connect() }

    /// Closes the connection for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }
}
