// SPDX-License-Identifier: Apache-2.0
//
// Messages that wait for room, as they are told to whoever asks (FAN-8). Rests on the ledgers.

public import MartletBase
public import MartletRows

/// A message that waits until others of its project have ended (FAN-1).
public struct DeferredMessage: Sendable {
    /// The number in the message ID.
    public var number: UInt64
    /// What its life is counted from: when it was sent, or was to be sent.
    public var since: Instant
    public var target: SendCommand.Target

    /// Those of a project in their order, after a number.
    public static func list(
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
