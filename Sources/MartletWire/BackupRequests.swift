// SPDX-License-Identifier: Apache-2.0
//
// A backup of the data folder, for an administrator who makes another node of it (OPS-7). The stream of
// `martlet backup` comes in parts, each by a request of its own, so an administrator who is slow or gone costs the
// broker one part. Rests on `WireReader` and `WireWriter`.

extension AdministratorInterface {
    /// The next part of a backup of the data folder.
    /// - Parameter backup: the number of the backup; 0: a new backup begins.
    package func backupPart(of backup: UInt64) async throws(Failure) -> BackupPart {
        try await requests.ask(BackupRequest(backup: backup))
    }
}
