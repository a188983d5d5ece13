// SPDX-License-Identifier: Apache-2.0
//
// What the engine remembers of deferred messages, and of fanouts that this transaction has begun. The messages themselves
// are in the store, so after a failed transaction the counts are simply read again. Rests on FanoutBook.

import MartletBase

struct Admission {
    /// Each project's deferred messages; nil until read from the store.
    private(set) var counts: [ProjectNumber: Int]?
    private var isChanged = false
    /// Fanouts that this transaction has entered in the book.
    private var entered: [FanoutProgress] = []
    /// Whose deferred message began last. Projects take turns, so the search for the next one starts after this project.
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
