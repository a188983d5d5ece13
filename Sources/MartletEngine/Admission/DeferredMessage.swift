// SPDX-License-Identifier: Apache-2.0
//
// Deferred messages in the broker's answers (FAN-8). Rests on the ledgers.

package import MartletBase
package import MartletRows

/// A message that waits until others of its project have ended (FAN-1).
package struct DeferredMessage: Sendable {
    /// The number in the message ID.
    package var number: UInt64
    /// When its time to live began: at acceptance, or at the scheduled instant.
    package var since: Instant
    /// The target; of several targets, the first eight.
    package var target: SendCommand.Target

    /// A project's deferred messages after `number`, in order, at most `limit`.
    package static func list(
        in project: ProjectNumber, after number: UInt64, limit: Int,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [DeferredMessage] {
        var result: [DeferredMessage] = []
        for message in try storage.deferred.messages(in: project, after: number, limit: limit) {
            result.append(
                DeferredMessage(
                    number: message.number, since: message.due,
                    target: try ScheduledSend.message(message.bytes).target.told))
        }
        return result
    }
}
