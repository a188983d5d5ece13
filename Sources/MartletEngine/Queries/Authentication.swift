// SPDX-License-Identifier: Apache-2.0
//
// Authenticates senders and devices (REG-2, REG-5). The caller hashes the secret; here digests are compared in constant time.
// Rests on the ledgers.

package import MartletBase
package import MartletRows

/// Checks credentials against a snapshot.
package enum Authentication {
    /// Checks a server key. Its text is `ID.SECRET`, and `digest` is the digest of the whole text.
    /// - Parameter projectID: the project that the key must belong to; nil: any project.
    /// - Throws: `MartletError` if the key is wrong or revoked, `StorageError`.
    package static func sender(
        projectID: String? = nil, keyID: String, digest: SecretDigest,
        in storage: borrowing Transaction
    ) throws -> Project {
        guard let key = try storage.projects.serverKey(id: keyID), key.digest.matches(digest),
            let project = try storage.projects.project(key.project),
            project.id == projectID ?? project.id
        else {
            throw MartletError(
                .unauthenticated,
                "The server key is not one of this project's; 'martlet key create' makes one.",
                field: "server_key")
        }
        guard !key.isRevoked else {
            throw MartletError(
                .unauthenticated, "The server key was revoked; use another.", field: "server_key")
        }
        return project
    }

    /// Finds a service-account key that is not revoked, and its project. The caller verifies the signature.
    /// - Parameter projectID: the project that the key must belong to; nil: any project.
    /// - Throws: `MartletError` if the key is unknown or revoked, `StorageError`.
    package static func serviceAccount(
        projectID: String? = nil, keyID: String,
        in storage: borrowing Transaction
    ) throws -> (project: Project, key: ServiceAccountKey) {
        guard let key = try storage.projects.serviceAccountKey(id: keyID),
            let project = try storage.projects.project(key.project),
            project.id == projectID ?? project.id
        else {
            throw MartletError(
                .unauthenticated,
                "The service account is not one of this project's; 'martlet service-account create' "
                    + "makes one.", field: "service_account")
        }
        guard !key.isRevoked else {
            throw MartletError(
                .unauthenticated, "The service-account key was revoked; use another.",
                field: "service_account")
        }
        return (project, key)
    }

    /// Checks a token and a device key (REG-2). A former token will do (REG-4), because the device may not know its new one
    /// yet, and nobody else has its device key.
    /// - Parameter digest: nil for the door to push services (GW-11), whose credential the caller has checked.
    /// - Throws: `MartletError`, `StorageError`.
    package static func device(
        projectID: String, token text: String, digest: SecretDigest?,
        in storage: borrowing Transaction
    ) throws -> (project: Project, instance: Instance, state: MailboxState) {
        let token = try Token(validating: text)
        // An unknown project has no such token either. The answer must not tell the two cases apart (REG-10).
        guard let project = try storage.projects.project(id: projectID),
            let place = try storage.instances.locate(token)
                ?? storage.instances.locateFormer(token),
            place.project == project.number,
            let instance = try storage.instances.instance(place.ordinal, in: place.project)
        else {
            throw MartletError(
                .unregistered, "The token is not registered in this project; register again.",
                field: "token")
        }
        guard digest.map({ instance.keyDigest.matches($0) }) ?? true else {
            throw MartletError(
                .unauthenticated, "The device key is not this token's.", field: "device_key")
        }
        let state = try storage.mailboxes.state(of: place.ordinal, in: place.project)
        return (project, instance, state)
    }

    /// The project with an ID.
    /// - Throws: `MartletError.noProject` if the project does not exist, `StorageError`.
    package static func project(
        id: String, in storage: borrowing Transaction
    ) throws -> Project {
        guard let project = try storage.projects.project(id: id) else {
            throw MartletError.noProject
        }
        return project
    }
}
