// SPDX-License-Identifier: Apache-2.0
//
// Which transaction changed a set of instances last, project by project. A reader that remembers a set
// asks here whether its memory still holds, instead of reading the set again. The writer notes its
// transaction before it commits: a reader whose snapshot has the change therefore finds the note. A
// note without a commit (the transaction failed) costs a reader one more reading and nothing else.
// Rests on Synchronization.

import MartletBase
import Synchronization

/// One value per store.
final class SetChanges: Sendable {
    /// Projects whose numbers differ by a multiple of this share a place: a note of one makes readers
    /// of the other read again.
    private static let places = 64

    private let last: [Place] = (0..<SetChanges.places).map { _ in Place() }

    private final class Place: Sendable {
        let transaction = Atomic<UInt64>(0)
    }

    /// Only one transaction writes at a time, so numbers rise.
    func note(_ transaction: UInt64, in project: ProjectNumber) {
        last[Int(project.rawValue) % Self.places].transaction.store(
            transaction, ordering: .releasing)
    }

    func last(in project: ProjectNumber) -> UInt64 {
        last[Int(project.rawValue) % Self.places].transaction.load(ordering: .acquiring)
    }
}
