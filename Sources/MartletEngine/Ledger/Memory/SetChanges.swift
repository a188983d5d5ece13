// SPDX-License-Identifier: Apache-2.0
//
// The last transaction that changed any of a project's sets of instances, by project. Whoever keeps a set in memory
// compares this number instead of reading the set again. The writer notes its transaction before the commit, so nobody sees the
// change without the note. If the transaction then fails, readers read once too often. Rests on Synchronization.

import MartletBase
import Synchronization

/// A store's notes.
final class SetChanges: Sendable {
    /// Projects whose numbers differ by a multiple of 64 share a place: a note for one makes the others' readers read
    /// again.
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
