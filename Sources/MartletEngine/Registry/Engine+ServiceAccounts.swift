// SPDX-License-Identifier: Apache-2.0
//
// Service-account keys (REG-5): public keys, whose private halves stay with app servers. Rests on the ledgers.

import MartletBase
import MartletRows

extension Engine {
    func createServiceAccount(
        _ key: NewServiceAccountKey, projectID: String, now: Instant,
        in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        if let error = fault(in: key) { return .refused(error) }
        guard try storage.projects.serviceAccountKey(id: key.id) == nil else {
            return .refused(
                MartletError(
                    .alreadyExists, "A service-account key with this ID exists; make another pair.",
                    field: "key"))
        }
        let known = try storage.projects.serviceAccountKeys(of: project.number).count
        guard known < Limits.serviceAccountsPerProjectMax else {
            return .refused(.tooMany("service-account keys", known, field: "key"))
        }
        try storage.projects.put(
            ServiceAccountKey(
                id: key.id, project: project.number, name: key.name,
                clientEmail: key.clientEmail, publicKey: key.publicKey, created: now,
                isRevoked: false))
        return .done
    }

    private func fault(in key: NewServiceAccountKey) -> MartletError? {
        let isPlain = key.id.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard isPlain, (1...Limits.serviceAccountIDBytesMax).contains(key.id.utf8.count) else {
            return MartletError(
                .invalidArgument,
                "The ID of a service-account key has 1 to \(Limits.serviceAccountIDBytesMax) "
                    + "characters of [a-z0-9].", field: "key")
        }
        if let fault = Self.fault(inKeyName: key.name) { return fault }
        guard (1...Limits.clientEmailBytesMax).contains(key.clientEmail.utf8.count) else {
            return MartletError(
                .invalidArgument,
                "A service account's address has 1 to \(Limits.clientEmailBytesMax) bytes.",
                field: "client_email")
        }
        guard (1...Limits.publicKeyBytesMax).contains(key.publicKey.count) else {
            return MartletError(
                .invalidArgument,
                "A public key has 1 to \(Limits.publicKeyBytesMax) bytes of DER.",
                field: "public_key")
        }
        if let fault = RSAPublicKey.fault(in: key.publicKey) {
            return MartletError(
                .invalidArgument,
                "The public key \(fault). Give the public half of an RSA key, as a "
                    + "SubjectPublicKeyInfo in DER.", field: "public_key")
        }
        return nil
    }

    func revokeServiceAccount(
        id: String, projectID: String, in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        guard var key = try storage.projects.serviceAccountKey(id: id),
            key.project == project.number
        else {
            return .refused(
                MartletError(
                    .notFound,
                    "The project has no such key; 'martlet service-account list' shows its keys.",
                    field: "key"))
        }
        key.isRevoked = true
        try storage.projects.put(key)
        return .done
    }
}
