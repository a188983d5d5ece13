// SPDX-License-Identifier: Apache-2.0
//
// Cancels an accepted message, before it is due or during its fanout (MSG-10). Rests on `SenderInterface`.

import MartletBase

/// The result of a cancellation (MSG-10).
public struct CancelSummary: Sendable, Hashable {
    /// Whether the message was still scheduled or deferred, so no instance had been sent the message.
    public var wasScheduled: Bool
    /// Recipients that had acknowledged the message before the cancellation.
    public var deliveredCount: UInt64

    package init(_ cancelled: Cancelled) {
        wasScheduled = cancelled.wasScheduled
        deliveredCount = cancelled.delivered
    }
}

extension SenderInterface {
    /// MSG-10: cancels a message. Recipients without the message do not get the message any more.
    /// - Parameter messageID: as in `SendReceipt`, or the number alone.
    /// - Throws: `NOT_FOUND` for an unknown or expired message, and for a message that each recipient has already;
    ///   `INVALID_ARGUMENT` for text that is no message ID.
    @discardableResult
    public func cancel(_ messageID: String) async throws -> CancelSummary {
        let number = try MessageID.number(messageID, projectID: projectID)
        return CancelSummary(try await requests.ask(CancelRequest(messageNumber: number)))
    }
}
