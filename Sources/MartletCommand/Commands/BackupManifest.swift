// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a backup: what the backup holds, for people and scripts. A backup folder has the stream in `rows` and
// the manifest in `manifest.json`. The manifest is written last, so a folder without one is no backup. Rests on
// MartletStore.

import FoundationEssentials
import Martlet
import MartletAnswers
import MartletStore

struct BackupManifest: Codable, Equatable {
    static let rowsName = "rows"
    static let name = "manifest.json"

    struct Project: Codable, Equatable {
        var project: String
        /// The number of the last message in the backup.
        var lastMessage: UInt64
    }

    var storeFormat: UInt32
    var created: String
    var rows: UInt64
    var bytes: UInt64
    /// Of the stream, without its last 32 bytes, which are the digest.
    var sha256: String
    var projects: [Project]

    init(_ summary: BackupSummary) {
        storeFormat = summary.storeFormat
        created = Date(timeIntervalSince1970: Double(summary.created / 1000))
            .formatted(.iso8601)
        rows = summary.rowCount
        bytes = summary.byteCount
        sha256 = summary.digest.map { byte in
            let digits = String(byte, radix: 16)
            return byte < 16 ? "0" + digits : digits
        }.joined()
        projects = summary.projects.map { Project(project: $0.id, lastMessage: $0.lastSequence) }
    }

    /// Whether the manifest describes the same stream. The projects are rows of the stream, so the digest covers them.
    func describes(_ summary: BackupSummary) -> Bool {
        var other = BackupManifest(summary)
        other.projects = projects
        return self == other
    }

    var text: String { JSON.line(self) + "\n" }

    func sentence(_ verb: String, _ place: String) -> String {
        "\(verb) \(Quantity.counted(projects.count, "project")), \(rows) rows, "
            + "\(Quantity.bytes(bytes)) \(place). Everything agrees."
    }
}
