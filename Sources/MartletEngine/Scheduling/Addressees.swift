// SPDX-License-Identifier: Apache-2.0
//
// Fixes the instances behind a waiting message's tokens when the message is accepted (REG-4). A scheduled or deferred message
// may be sent long after acceptance, and a device may have a new token by then. The message is still for the device's
// instance. So the store keeps the ordinal and its holder beside each token, and the token is not looked up again. After an
// instance has unregistered, neither the next holder of its ordinal nor a new owner of its token gets the message. Rests on
// the ledgers.

import MartletBase
import MartletRows

/// An instance, by values that a new token does not change.
struct Addressee: Hashable {
    var ordinal: Ordinal
    var holder: Holder
}

struct Addressees {
    /// An element for each token of the target, in order; nil: the token named no instance. Empty: not known.
    let inOrder: [Addressee?]
    private let byToken: [String: Addressee]

    /// The value for a message that is sent at once: its tokens are looked up.
    static let unknown = Addressees([], of: .token(""))

    /// - Parameter inOrder: an element for each token of the target, or empty.
    init(_ inOrder: [Addressee?], of target: SendCommand.Target) {
        self.inOrder = inOrder
        byToken = Dictionary(
            zip(target.tokens, inOrder).compactMap { token, one in one.map { (token, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    /// Looks up the present instances of a target's tokens.
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

    /// The instance of a token; nil: the token must be looked up.
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
