// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about service-account keys (REG-5). The private key never goes over the wire: the administrator
// makes the key pair and registers the public key. Rests on `AdministratorInterface`.

public import MartletBase

extension AdministratorInterface {
    /// Registers the public half of a key pair. The app server keeps the private half.
    /// - Parameters:
    ///   - keyID: unique in the broker; 1 to 64 characters of `[a-z0-9]`.
    ///   - name: a name for people, at most 200 bytes.
    ///   - clientEmail: issuer of the key's assertions, 1 to 255 bytes.
    ///   - publicKey: an RSA SubjectPublicKeyInfo in DER, at most 2048 bytes. The broker checks the form of the
    ///     key; the key is used where assertions are checked.
    /// - Throws: `NOT_FOUND`, `ALREADY_EXISTS`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED`.
    public func createServiceAccount(
        keyID: String, named name: String, clientEmail: String, publicKey: [UInt8],
        in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            CreateServiceAccountRequest(
                projectID: project, keyID: keyID, name: name, clientEmail: clientEmail,
                publicKey: publicKey))
    }

    /// Revokes a service-account key, and at once each access token minted from the key.
    /// - Throws: `NOT_FOUND`.
    public func revokeServiceAccount(_ keyID: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(
            RevokeServiceAccountRequest(projectID: project, keyID: keyID))
    }

    /// All service-account keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND` for the project.
    public func serviceAccounts(
        in project: String
    ) async throws(Failure) -> [ServiceAccountSummary] {
        try await requests.ask(ListServiceAccountsRequest(projectID: project)).entries
    }
}
