// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys that verify tickets (REG-7). Rests on `AdministratorInterface`.

public import MartletBase

extension AdministratorInterface {
    /// Adds a key that verifies tickets (REG-7): the secret that the app's server signs HS256 tickets with. The
    /// broker's data folder has the secret itself.
    /// - Parameters:
    ///   - secret: 32 to 2048 bytes.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    ///   - name: a name for people, at most 200 bytes.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketSecret(
        _ secret: [UInt8], id: String, named name: String = "", in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddTicketKeyRequest(
                projectID: project, keyID: id, name: name, algorithm: .hs256, secret: secret))
    }

    /// Adds a key that verifies tickets (REG-7): the public half of the key that the app's server signs with.
    /// - Parameters:
    ///   - publicKey: the text from `BEGIN PUBLIC KEY` to `END PUBLIC KEY`: RSA of 2048 to 4096 bits for RS256, P-256
    ///     for ES256.
    ///   - algorithm: `rs256` or `es256`. HS256 has a secret and is refused.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    ///   - name: a name for people, at most 200 bytes.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketKey(
        _ publicKey: String, for algorithm: TicketAlgorithm, id: String, named name: String = "",
        in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddTicketKeyRequest(
                projectID: project, keyID: id, name: name, algorithm: algorithm,
                publicKey: publicKey))
    }

    /// Revokes a ticket key, and removes the key's secret from the store. The key's tickets are refused from then on;
    /// registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeTicketKey(_ id: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeTicketKeyRequest(projectID: project, keyID: id))
    }

    /// All ticket keys of a project, including revoked keys, without secrets.
    /// - Throws: `NOT_FOUND`.
    public func ticketKeys(in project: String) async throws(Failure) -> [TicketKeySummary] {
        try await requests.ask(ListTicketKeysRequest(projectID: project)).entries
    }
}
