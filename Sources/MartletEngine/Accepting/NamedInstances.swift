// SPDX-License-Identifier: Apache-2.0
//
// The instances that a target lists: a group's members, or the tokens among several targets. The sender is told which of them
// the message is for, and why the others are left out. Rests on Command.

import MartletBase
import MartletBits
import MartletRows

struct NamedInstances {
    enum Kind {
        case group
        case tokens
    }

    private struct Entry {
        /// Its index among the targets or members.
        var index: Int
        /// nil if the text isn't a token of the project.
        var instance: (token: Token, ordinal: Ordinal)?
        /// Why the message isn't for it; nil if it is.
        var word: ErrorWord?
    }

    private let kind: Kind
    private var entries: [Entry] = []

    init(_ kind: Kind) { self.kind = kind }

    /// - Parameter word: why the message isn't for it; nil if it is.
    mutating func add(_ instance: Instance, at index: Int, _ word: ErrorWord?) {
        entries.append(
            Entry(index: index, instance: (instance.token, instance.ordinal), word: word))
    }

    /// Notes an index where no instance is named.
    mutating func addNobody(at index: Int, _ word: ErrorWord) {
        entries.append(Entry(index: index, instance: nil, word: word))
    }

    /// The ordinals that the message is for.
    var ordinals: [Ordinal] {
        entries.compactMap { $0.word == nil ? $0.instance?.ordinal : nil }
    }

    /// Notes the quota as the reason for recipients that weren't granted (QUO-1).
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

    /// Each recipient on its own, for a target with a single token.
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
