// SPDX-License-Identifier: Apache-2.0
//
// No accepted message is lost: finds the messages still missing at their recipients. Rests on the models.

import MartletBase

extension Oracle {
    /// A message missing at a recipient.
    struct Missing {
        let instance: InstanceModel
        let message: MessageModel
    }

    /// All messages still to come at this instant.
    func missing(at now: Instant) -> [Missing] {
        var missing: [Missing] = []
        // Newest first, because a message replaced by a later message of the same key need not come (COL-1).
        var replaced: [Int: Set<String>] = [:]
        let stored = messages.filter { $0.isSent && $0.isStored }
        for message in stored.sorted(by: { $0.sequence > $1.sequence }) {
            for number in message.recipients.sorted() {
                let instance = instances[number]
                guard instance.isRegistered else { continue }
                var isReplaced = false
                if !message.collapseKey.isEmpty {
                    isReplaced =
                        !replaced[number, default: []].insert(message.collapseKey).inserted
                }
                guard !isReplaced, !message.isCancelled, !message.isExpired(now),
                    !instance.taken.contains(message.id),
                    message.sequence > instance.deletedThrough
                else { continue }
                missing.append(Missing(instance: instance, message: message))
            }
        }
        return missing
    }

    /// Checks, in a world at rest, that no message is missing.
    func checkCompleteness(at now: Instant) {
        for one in missing(at: now) {
            fail(
                """
                \(one.message) never came to instance \(one.instance.number)
                """)
        }
        for sent in upstreamLeft(at: now) {
            fail("\(sent.messageID) of instance \(sent.instance.number) was taken by no sender")
        }
    }
}
