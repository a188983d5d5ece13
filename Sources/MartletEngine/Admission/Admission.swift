// SPDX-License-Identifier: Apache-2.0
//
// The engine's memory of deferred messages, and of fanouts begun by the present transaction. The store keeps the
// deferred messages, so the counts are read again after a failed transaction. Rests on FanoutBook.

import MartletBase

struct Admission {
    /// Deferred messages of each project; nil: not read from the store yet.
    private(set) var counts: [ProjectNumber: Int]?
    private var isChanged = false
    /// Fanouts entered in the book by the present transaction.
    private var entered: [FanoutProgress] = []
    /// The project whose deferred message began last. Projects take turns: the search for the next message begins
    /// behind this project.
    var lastServed: ProjectNumber?

    var isKnown: Bool { counts != nil }

    mutating func know(_ counts: [ProjectNumber: Int]) {
        self.counts = counts
        isChanged = true
    }

    func count(of project: ProjectNumber) -> Int { counts?[project] ?? 0 }

    mutating func change(_ project: ProjectNumber, by difference: Int) {
        let count = count(of: project) + difference
        invariant(counts != nil, "The deferred messages are read before they are changed.")
        invariant(count >= 0, "No project has fewer than no deferred messages.")
        counts?[project] = count > 0 ? count : nil
        isChanged = true
    }

    mutating func enter(_ progress: FanoutProgress, in book: FanoutBook) {
        book.enter(progress)
        assert(!entered.contains { $0 === progress }, "A transaction enters a fanout once.")
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
