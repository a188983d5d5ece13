// SPDX-License-Identifier: Apache-2.0
//
// The parts of a broker that requests are answered from: snapshots of the store, the gauges and the quotas. Rests on
// Gauges.

import MartletBase
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore

/// Answers requests, on any thread.
struct Answerer: Sendable {
    let store: Store
    let programs: SharedPrograms
    let gauges: Gauges
    /// OPS-11: the limits in force.
    var limits: BrokerLimits { gauges.committer.limits.value }
    let quotas: ProjectQuotas
    /// The data folder, with the secrets beside the store.
    let folder: String
    /// OPS-7: backups for administrators; nil: the broker hands out none.
    var backups: BackupRunner?

    /// Reads a snapshot of the store.
    /// - Throws: the error of `body`, `StorageError`.
    func read<Answer>(_ body: (borrowing Transaction) throws -> Answer) throws -> Answer {
        try store.read { (transaction) throws in try body(transaction) }
    }
}
