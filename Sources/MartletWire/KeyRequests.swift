// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of a project that the broker makes: server keys (REG-5) and registration keys
// (REG-7). The broker tells the text of a key once, when the key is created. Rests on `AdministratorInterface`.

public import MartletBase

extension AdministratorInterface {
    /// Creates a server key for a project (REG-5). The text of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createServerKey(
        named name: String, in project: String
    ) async throws(Failure) -> IssuedKey {
        let key = try await requests.ask(CreateKeyRequest(projectID: project, name: name))
        return IssuedKey(id: key.keyID, text: key.text)
    }

    /// Revokes a server key. New connections with the key are refused, and the broker ends the connections that were
    /// opened with the key (REG-9).
    /// - Throws: `NOT_FOUND`.
    public func revokeServerKey(_ id: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeKeyRequest(projectID: project, keyID: id))
    }

    /// All server keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func serverKeys(in project: String) async throws(Failure) -> [KeySummary] {
        try await requests.ask(ListKeysRequest(projectID: project)).entries
    }

    /// Creates a registration key, which lies in the app and lets devices register, and nothing else (REG-7). The text
    /// of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createRegistrationKey(
        named name: String, in project: String
    ) async throws(Failure) -> IssuedKey {
        let key = try await requests.ask(
            CreateRegistrationKeyRequest(projectID: project, name: name))
        return IssuedKey(id: key.keyID, text: key.text)
    }

    /// Revokes a registration key. New devices with the key are refused; registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeRegistrationKey(_ id: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeRegistrationKeyRequest(projectID: project, keyID: id))
    }

    /// All registration keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func registrationKeys(in project: String) async throws(Failure) -> [KeySummary] {
        try await requests.ask(ListRegistrationKeysRequest(projectID: project)).entries
    }
}
