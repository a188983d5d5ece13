// SPDX-License-Identifier: Apache-2.0
//
// The progress of a migration, for the process that opens a broker: a service manager must learn that the start takes
// longer than usual (OPS-3). Rests on MartletStore.

import MartletStore

/// How far the migration of a data folder is.
public struct MigrationProgress: Sendable, Hashable {
    /// Store format of the folder.
    public let fromFormat: UInt32
    /// Store format of this program.
    public let toFormat: UInt32
    /// Finished part of the work, 0 to 100.
    public let percent: Int

    package init(fromFormat: UInt32, toFormat: UInt32, percent: Int) {
        self.fromFormat = fromFormat
        self.toFormat = toFormat
        self.percent = percent
    }

    init?(_ event: MigrationEvent) {
        guard case .advanced(let from, let to, let percent) = event else { return nil }
        self.init(fromFormat: from, toFormat: to, percent: percent)
    }
}
