// SPDX-License-Identifier: Apache-2.0
//
// The requests of a project's sender: the broker in this process and the client of a connection have all of them, by
// the same names. Each request with one answer is an extension of the protocol in the file of its frames. Rests on
// `RequestPort`.

public import MartletBase

/// The requests of one project's sender: of `Broker.sender(in:)` in this process, or of `MartletSender` on a
/// connection. A refused request is thrown as `MartletError`.
public protocol SenderInterface: Sendable {
    /// `MartletError` in the broker's process. On a connection also `CancellationError`, for a cancelled task.
    associatedtype Failure: Error
    /// ID of the sender's project.
    var projectID: String { get }
    /// The way of the requests to the broker.
    var requests: RequestPort<Failure> { get }

    /// Sends a message (MSG-6). On return the message is on disk, and on its way to connected recipients. A message
    /// with a time to live of 0 is only on its way (TTL-2). A message with `sendAt` waits for the given instant
    /// (MSG-10). If a message comes again with the same `idempotencyKey` within 24 hours, the broker does not send the
    /// message twice and returns the first answer (MSG-9).
    /// - Throws: `INVALID_ARGUMENT` naming the field; `UNREGISTERED`; `SENDER_ID_MISMATCH`; `QUOTA_EXCEEDED` with a
    ///   retry delay (QUO-1); `RESOURCE_EXHAUSTED` for too many scheduled messages, and with a retry delay for too many
    ///   fanouts (FAN-1); `UNAVAILABLE` with a retry delay.
    @discardableResult
    func send(_ message: OutgoingMessage) async throws(Failure) -> SendReceipt

    /// Calls `body` with each receipt, from the oldest receipt that no sender has taken (RCP-1), until `body` returns
    /// false or throws, or the task is cancelled. A receipt is taken when `body` returns.
    func takeReceipts(_ body: @Sendable (DeliveryReceipt) async throws -> Bool) async throws

    /// Calls `body` with each message of the project's devices, from the oldest message that no sender has taken
    /// (UPS-1), until `body` returns false or throws, or the task is cancelled. A message is taken when `body` returns.
    func takeUpstreamMessages(_ body: @Sendable (DeviceMessage) async throws -> Bool) async throws
}

extension SenderInterface {
    /// Sends a message with the most common options. See `send(_:)` with an `OutgoingMessage`.
    @discardableResult
    public func send(
        _ message: Message, to target: MessageTarget, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, validateOnly: Bool = false
    ) async throws(Failure) -> SendReceipt {
        try await send(
            OutgoingMessage(
                to: target, message, timeToLiveSeconds: timeToLiveSeconds, priority: priority,
                validateOnly: validateOnly))
    }

    /// Sends a message to the union of the targets; each instance gets the message once. A bad token does not
    /// refuse the message: the result's `tokens` has the failure.
    ///
    /// - Parameter targets: at most 10,000 tokens, and at most 100 topics, conditions and groups.
    @discardableResult
    public func send(
        _ message: Message, toAll targets: [MessageTarget]
    ) async throws(Failure) -> SendReceipt {
        try await send(OutgoingMessage(to: .several(targets), message))
    }
}

/// The answer to an accepted message (MSG-6).
public struct SendReceipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`; nil after `validateOnly`.
    public var messageID: String?
    /// Number in the message ID; 0 after `validateOnly`.
    public var messageNumber: UInt64
    /// Instances for which the message was accepted; 0 for a scheduled or deferred message.
    public var recipientCount: UInt64
    /// QUO-1: instances left out of the recipients, because their devices had too many messages.
    public var rateLimitedCount: UInt64
    /// STO-2: recipients for which the message was discarded at once, because the instance has not connected
    /// for more than 30 days.
    public var inactiveCount: UInt64
    /// FAN-1: place among the project's deferred messages, from 1. nil: the message is not deferred.
    public var deferredPlace: Int?
    /// GRP-5: results for the members of a group, or for the tokens among several targets. nil for any other
    /// target.
    public var tokens: TokenResults?

    /// Makes the answer to a message of a project.
    package init(_ accepted: Accepted, tokens: TokenResults?, projectID: String) {
        let number = accepted.messageNumber
        messageID = number == 0 ? nil : MessageID.text(number, projectID: projectID)
        messageNumber = number
        recipientCount = accepted.recipients
        rateLimitedCount = accepted.rateLimited
        inactiveCount = accepted.inactive
        deferredPlace =
            accepted.deferredPlace == 0 ? nil : Int(clamping: accepted.deferredPlace)
        self.tokens = tokens
    }
}
