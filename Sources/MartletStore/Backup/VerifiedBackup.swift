// SPDX-License-Identifier: Apache-2.0
//
// Verifies a backup without a restore: every row has the form of the stream, and the digest proves that the bytes are
// those that were written. The indexes of a backup agree, because a backup checks its snapshot before its end; a restore
// checks them again. Rests on BackupReader.

import MartletRows

package enum VerifiedBackup {
    private static let rowsPerProgress: UInt64 = 16_384

    /// OPS-3: reads a whole backup, and keeps nothing of it.
    ///
    /// - Returns: the content in numbers, without the projects.
    /// - Throws: `BackupError`.
    package static func verify(
        _ descriptor: Int32, progress: (BackupProgress) -> Void
    ) throws -> BackupSummary {
        var reader = try BackupReader(descriptor)
        var summary = BackupSummary(storeFormat: reader.storeFormat, created: reader.created)
        while let item = try reader.next() {
            switch item {
            case .file(let name, _):
                guard BackupStream.isKept(name) else {
                    throw BackupError.damaged("it has a file that no data folder has")
                }
            case .table(let name):
                guard Table.allCases.contains(where: { $0.name == name }) else {
                    throw BackupError.damaged("it has a table that no store has")
                }
            case .row:
                summary.rowCount += 1
                if summary.rowCount % rowsPerProgress == 0 {
                    progress(.rows(done: summary.rowCount, of: nil))
                }
            }
        }
        summary.digest = try reader.end()
        summary.byteCount = UInt64(reader.byteCount)
        return summary
    }
}
