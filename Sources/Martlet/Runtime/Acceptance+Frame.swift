// SPDX-License-Identifier: Apache-2.0
//
// What the engine says to a message becomes what its sender is told: a frame of its own where the target
// names instances one by one. Rests on the engine's commands and MartletWire.

import MartletBase
import MartletEngine
import MartletWire

extension Acceptance {
    func frame(correlation: UInt32) -> BrokerFrame {
        let accepted = Accepted(
            correlation: correlation, messageNumber: messageNumber, recipients: recipientCount,
            rateLimited: rateLimitedCount, inactive: inactiveCount, deferredPlace: deferredPlace)
        switch named {
        case .none: return .accepted(accepted)
        case .group(let successCount, let failures):
            return .groupAccepted(
                GroupAccepted(
                    accepted: accepted, successes: UInt16(clamping: successCount),
                    failures: failures.map { .init(token: $0.token.text, word: $0.word) }))
        case .tokens(let successCount, let failures):
            return .multicastResult(
                MulticastResult(
                    accepted: accepted, successes: UInt16(clamping: successCount),
                    failures: failures.map {
                        // A frame has fewer targets than indexes.
                        .init(index: UInt16(clamping: $0.index), word: $0.word)
                    }))
        }
    }
}

extension TokenResults {
    /// nil where the target names none.
    /// - Parameter target: of the message.
    init?(_ named: NamedResults, of target: MessageTarget) {
        switch named {
        case .none: return nil
        case .group(let successCount, let failures):
            self.init(
                successCount: successCount,
                failures: failures.map {
                    Failure(token: $0.token.text, index: nil, word: $0.word)
                })
        case .tokens(let successCount, let failures):
            self.init(
                successCount: successCount,
                failures: failures.map {
                    Failure(token: target.text(at: $0.index), index: $0.index, word: $0.word)
                })
        }
    }
}

extension GroupResult {
    init(correlation: UInt32, _ group: GroupMembers) {
        self.init(
            correlation: correlation, name: group.name.text, key: group.key.text,
            tokens: group.tokens.map(\.text))
    }
}
