// SPDX-License-Identifier: Apache-2.0
//
// Nothing accepted is lost: what every instance has to have in the end. Rests on the models.

import MartletBase

extension Oracle {
    /// An instance and a message that it should have and has not.
    struct Missing {
        let instance: InstanceModel
        let message: MessageModel
    }

    /// What is still to come at this instant.
    func missing(at now: Instant) -> [Missing] {
        var missing: [Missing] = []
        // Newest first: what a later message of the same key replaced need not come (COL-1).
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

    /// The world has come to rest.
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
