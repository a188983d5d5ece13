// SPDX-License-Identifier: Apache-2.0
//
// The engine's acceptance of a message, as the answer to the sender. A target that names single instances gets a
// frame type of its own. Rests on the engine's commands and MartletWire.

import MartletBase
import MartletEngine
import MartletWire

extension Acceptance {
    /// The counts, without the results for single instances.
    func accepted(correlation: UInt32 = 0) -> Accepted {
        Accepted(
            correlation: correlation, messageNumber: messageNumber, recipients: recipientCount,
            rateLimited: rateLimitedCount, inactive: inactiveCount, deferredPlace: deferredPlace)
    }

    func frame(correlation: UInt32) -> BrokerFrame {
        let accepted = accepted(correlation: correlation)
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
                        // The index fits, because a frame has fewer targets than `UInt16` has values.
                        .init(index: UInt16(clamping: $0.index), word: $0.word)
                    }))
        }
    }
}

extension TokenResults {
    /// nil for a target without single instances.
    /// - Parameter target: target of the message.
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
