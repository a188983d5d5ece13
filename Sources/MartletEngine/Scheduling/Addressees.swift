// SPDX-License-Identifier: Apache-2.0
//
// REG-4: whom the tokens of a message named when it was accepted. A message that waits for its time or
// for room is sent long after that, and a device may have another token by then: its instance is still
// the one that the message is for. So the ordinal and its holder are kept beside each token, and a token
// that stands for them is not looked up again. An instance that has left is not replaced by the next
// holder of its ordinal, nor by whoever has its token. Rests on the ledgers.

import MartletBase
import MartletRows

/// An instance, by what no rotation changes.
struct Addressee: Hashable {
    var ordinal: Ordinal
    var holder: Holder
}

struct Addressees {
    /// In the order of the tokens in the target; nil: the token named nobody.
    let inOrder: [Addressee?]
    private let byToken: [String: Addressee]

    /// A message that is sent at once: its tokens are looked up.
    static let unknown = Addressees([], of: .token(""))

    /// - Parameter inOrder: of the tokens in the target; none: not known.
    init(_ inOrder: [Addressee?], of target: SendCommand.Target) {
        self.inOrder = inOrder
        byToken = Dictionary(
            zip(target.tokens, inOrder).compactMap { token, one in one.map { (token, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    /// Whom the tokens of a target name now.
    init(
        of target: SendCommand.Target, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        var found: [Addressee?] = []
        for text in target.tokens {
            guard let token = Token(text: text), let place = try storage.instances.locate(token),
                place.project == project,
                let instance = try storage.instances.instance(place.ordinal, in: project)
            else {
                found.append(nil)
                continue
            }
            found.append(Addressee(ordinal: place.ordinal, holder: instance.holder))
        }
        self.init(found, of: target)
    }

    subscript(token: String) -> Addressee? { byToken.isEmpty ? nil : byToken[token] }
}

extension SendCommand.Target {
    /// The tokens of a target, in their order.
    var tokens: [String] {
        switch self {
        case .token(let text): [text]
        case .several(let targets): targets.flatMap(\.tokens)
        case .topic, .condition, .group: []
        }
    }
}
