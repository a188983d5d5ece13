// SPDX-License-Identifier: Apache-2.0
//
// Remembers whose the tokens of a waiting message were when it was accepted (REG-4). A scheduled or deferred message may be
// sent much later, and by then a device may have a new token, but the message is still for it. So the store keeps ordinal and
// holder beside each token, which isn't looked up again. If the instance unregisters, neither the ordinal's next holder nor a
// new owner of the token gets the message. Rests on the ledgers.

import MartletBase
import MartletRows

/// An instance, identified by what a new token doesn't change.
struct Addressee: Hashable {
    var ordinal: Ordinal
    var holder: Holder
}

struct Addressees {
    /// One for each token of the target, in order; nil if it was nobody's. Empty if not known.
    let inOrder: [Addressee?]
    private let byToken: [String: Addressee]

    /// For a message that is sent at once: its tokens are looked up.
    static let unknown = Addressees([], of: .token(""))

    /// - Parameter inOrder: one for each token of the target, or empty.
    init(_ inOrder: [Addressee?], of target: SendCommand.Target) {
        self.inOrder = inOrder
        byToken = Dictionary(
            zip(target.tokens, inOrder).compactMap { token, one in one.map { (token, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    /// Looks up whose a target's tokens are now.
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

    /// A token's instance; nil if it must be looked up.
    subscript(token: String) -> Addressee? { byToken.isEmpty ? nil : byToken[token] }
}

extension SendCommand.Target {
    /// The tokens of a target, in order.
    var tokens: [String] {
        switch self {
        case .token(let text): [text]
        case .several(let targets): targets.flatMap(\.tokens)
        case .topic, .condition, .group: []
        }
    }
}
