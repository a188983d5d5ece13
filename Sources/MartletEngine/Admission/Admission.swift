// SPDX-License-Identifier: Apache-2.0
//
// What the engine knows between commands of messages that wait for room, and of those that its
// transaction began. The store has the former for good, so they are read again after a transaction
// that failed. Rests on FanoutBook.

import MartletBase

struct Admission {
    /// Messages of each project that wait; nil: not known.
    private(set) var counts: [ProjectNumber: Int]?
    private var isChanged = false
    /// Entered in the book by this transaction.
    private var entered: [FanoutProgress] = []
    /// Which project began a message last, so that each has its turn.
    var lastServed: ProjectNumber?

    var isKnown: Bool { counts != nil }

    mutating func know(_ counts: [ProjectNumber: Int]) {
        self.counts = counts
        isChanged = true
    }

    func count(of project: ProjectNumber) -> Int { counts?[project] ?? 0 }

    mutating func change(_ project: ProjectNumber, by difference: Int) {
        let count = count(of: project) + difference
        counts?[project] = count > 0 ? count : nil
        isChanged = true
    }

    mutating func enter(_ progress: FanoutProgress, in book: FanoutBook) {
        book.enter(progress)
        entered.append(progress)
    }

    mutating func committed(_ book: FanoutBook?) {
        entered.removeAll(keepingCapacity: true)
        guard isChanged, let counts else { return }
        isChanged = false
        book?.setDeferred(counts)
    }

    mutating func abandon(_ book: FanoutBook?) {
        for progress in entered { book?.takeBack(progress) }
        entered.removeAll(keepingCapacity: true)
        counts = nil
    }
}
