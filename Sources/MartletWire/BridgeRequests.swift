// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of a project for push services (GW-11). Rests on `AdministratorInterface`.

public import MartletBase

extension AdministratorInterface {
    /// Adds a key for Apple's push service (GW-11), or replaces the key with the same ID. The data folder keeps the
    /// private key sealed with a secret of the folder.
    /// - Parameters:
    ///   - privateKey: the text of the file `AuthKey_….p8` that Apple gives: an ES256 key in PKCS #8.
    ///   - id: the key ID, 10 characters.
    ///   - teamID: the team ID, 10 characters.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 8 keys.
    public func addAPNsKey(
        _ privateKey: String, id: String, teamID: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddBridgeKeyRequest(
                projectID: project, kind: .apns, keyID: id, owner: teamID, privateKey: privateKey))
    }

    /// Adds a private key for Web Push (RFC 8292), or replaces the key with the same ID.
    /// - Parameters:
    ///   - privateKey: an ES256 key in PKCS #8.
    ///   - id: the public key, as the browser's `applicationServerKey` in Base64URL.
    ///   - contact: `mailto:` or `https:`, where a push service reaches the operator.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 8 keys.
    public func addWebPushKey(
        _ privateKey: String, id: String, contact: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddBridgeKeyRequest(
                projectID: project, kind: .webPush, keyID: id, owner: contact,
                privateKey: privateKey))
    }

    /// Removes a project's key for a push service. Messages wait until the project has another key.
    /// - Throws: `NOT_FOUND`.
    public func removeBridgeKey(
        _ kind: BridgeKind, _ id: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            RemoveBridgeKeyRequest(projectID: project, kind: kind, keyID: id))
    }

    /// A project's keys for push services, without their secret halves.
    /// - Throws: `NOT_FOUND`.
    public func bridgeKeys(in project: String) async throws(Failure) -> [BridgeKeySummary] {
        try await requests.ask(ListBridgeKeysRequest(projectID: project)).entries
    }
}
