// SPDX-License-Identifier: Apache-2.0
//
// For each project, the last transaction that changed a set of instances. A reader that has a set in memory compares numbers
// here instead of reading the set again. The writer notes its transaction before the commit, so whoever sees the change
// also sees the note. If the transaction fails, the note costs readers one reading more. Rests on Synchronization.

import MartletBase
import Synchronization

/// The notes of a store.
final class SetChanges: Sendable {
    /// The number of places. Projects whose numbers differ by a multiple of 64 share a place: a note for a project
    /// makes the readers of the other projects read again.
    private static let places = 64

    private let last: [Place] = (0..<SetChanges.places).map { _ in Place() }

    private final class Place: Sendable {
        let transaction = Atomic<UInt64>(0)
    }

    /// Notes a transaction. Transactions write in turn, so the numbers rise.
    func note(_ transaction: UInt64, in project: ProjectNumber) {
        let place = last[Int(project.rawValue) % Self.places]
        invariant(
            place.transaction.load(ordering: .relaxed) <= transaction,
            "The numbers of writing transactions rise.")
        place.transaction.store(transaction, ordering: .releasing)
    }

    func last(in project: ProjectNumber) -> UInt64 {
        last[Int(project.rawValue) % Self.places].transaction.load(ordering: .acquiring)
    }
}
