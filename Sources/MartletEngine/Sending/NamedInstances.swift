// SPDX-License-Identifier: Apache-2.0
//
// The instances that a message's target names one by one, a group's members or the tokens among several
// targets, and why the message is not for some of them. What the sender is told of them is worked out
// here, while the audience is a set like any other. Rests on Command.

import MartletBase
import MartletBits
import MartletRows

struct NamedInstances {
    enum Kind {
        case group
        case tokens
    }

    private struct Entry {
        /// Among the targets, or the members.
        var index: Int
        /// nil: the text is no token of the project.
        var instance: (token: Token, ordinal: Ordinal)?
        /// nil: the message is for it.
        var word: ErrorWord?
    }

    private let kind: Kind
    private var entries: [Entry] = []

    init(_ kind: Kind) { self.kind = kind }

    /// - Parameter word: why the message is not for it.
    mutating func add(_ instance: Instance, at index: Int, _ word: ErrorWord?) {
        entries.append(
            Entry(index: index, instance: (instance.token, instance.ordinal), word: word))
    }

    /// The text that stands there names nobody.
    mutating func addNobody(at index: Int, _ word: ErrorWord) {
        entries.append(Entry(index: index, instance: nil, word: word))
    }

    /// Those that nothing speaks against.
    var ordinals: [Ordinal] {
        entries.compactMap { $0.word == nil ? $0.instance?.ordinal : nil }
    }

    /// QUO-1: who of the recipients is not among those that were granted it is over a limit.
    mutating func refuse(_ recipients: Recipients, beside granted: Recipients) {
        guard granted.count < recipients.count else { return }
        for index in entries.indices where entries[index].word == nil {
            guard let ordinal = entries[index].instance?.ordinal else { continue }
            if recipients.contains(ordinal), !granted.contains(ordinal) {
                entries[index].word = .quotaExceeded
            }
        }
    }

    var results: NamedResults {
        let failed = entries.filter { $0.word != nil }
        let successCount = entries.count - failed.count
        switch kind {
        case .group:
            return .group(
                successCount: successCount,
                failures: failed.compactMap { entry in
                    guard let token = entry.instance?.token, let word = entry.word else {
                        return nil
                    }
                    return .init(token: token, word: word)
                })
        case .tokens:
            return .tokens(
                successCount: successCount,
                failures: failed.compactMap { entry in
                    entry.word.map { .init(index: entry.index, word: $0) }
                })
        }
    }
}

extension Recipients {
    fileprivate func contains(_ ordinal: Ordinal) -> Bool {
        switch self {
        case .one(let one): one == ordinal
        case .many(let set): set.view.contains(ordinal)
        }
    }

    /// Each of few by itself.
    var single: [Recipients] {
        guard case .many(let set) = self else { return [self] }
        var ordinals: [Recipients] = []
        let view = set.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            block.view.forEachBit { ordinals.append(.one(Ordinal(block: block.block, bit: $0))) }
        }
        return ordinals
    }
}
