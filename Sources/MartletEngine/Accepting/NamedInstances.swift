// SPDX-License-Identifier: Apache-2.0
//
// The instances that a target lists: the members of a group, or the tokens among several targets. The results tell
// the sender which instances the message is for, and why the rest is left out. Rests on Command.

import MartletBase
import MartletBits
import MartletRows

struct NamedInstances {
    enum Kind {
        case group
        case tokens
    }

    private struct Entry {
        /// The index among the targets, or among the members.
        var index: Int
        /// nil: the text is no token of the project.
        var instance: (token: Token, ordinal: Ordinal)?
        /// The reason why the message is not for the instance; nil: the message is for the instance.
        var word: ErrorWord?
    }

    private let kind: Kind
    private var entries: [Entry] = []

    init(_ kind: Kind) { self.kind = kind }

    /// - Parameter word: the reason why the message is not for the instance; nil: the message is for the instance.
    mutating func add(_ instance: Instance, at index: Int, _ word: ErrorWord?) {
        entries.append(
            Entry(index: index, instance: (instance.token, instance.ordinal), word: word))
    }

    /// Notes an index whose text names no instance.
    mutating func addNobody(at index: Int, _ word: ErrorWord) {
        entries.append(Entry(index: index, instance: nil, word: word))
    }

    /// The ordinals of the message's instances.
    var ordinals: [Ordinal] {
        entries.compactMap { $0.word == nil ? $0.instance?.ordinal : nil }
    }

    /// QUO-1: notes the quota as the reason for recipients without a grant.
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

    /// Each recipient by itself. Used for a target with a single token.
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
