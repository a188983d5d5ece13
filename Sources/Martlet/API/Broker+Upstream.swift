// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices to their project (UPS-1): to receive messages, and to send for a device managed by this
// process. Rests on Broker.

import MartletEngine
import MartletRows
import MartletStore

extension Broker {
    /// UPS-1: messages of the project's devices, from the oldest unconfirmed message on. Each message is with
    /// one listener at a time, over all iterations and all connected senders. Asking for the next message
    /// confirms the message before. An unconfirmed message goes to another listener after 60 seconds, or at the
    /// end of the iteration. A message may therefore come twice, with the same number. The sequence ends when
    /// the task is cancelled.
    public func upstreamMessages(in project: String) -> UpstreamSequence {
        UpstreamSequence(broker: self, project: project)
    }

    /// UPS-1: accepts a message of a device to its project, as if the device had sent the message. On return
    /// the message is on disk, or on its way if `timeToLiveSeconds` is 0. A message repeated with the same
    /// `messageID` within 24 hours is not sent twice, unless the device has sent 100 other messages since.
    /// - Parameters:
    ///   - message: a message of data alone.
    ///   - token: token of the device.
    ///   - messageID: message ID chosen by the device, 1 to 128 bytes.
    ///   - timeToLiveSeconds: at most the project's longest time to live (28 days, unless configured otherwise). nil: the
    ///     longest. 0: only if a listener can take the message now.
    /// - Returns: the message's number among the messages of the project's devices.
    /// - Throws: `INVALID_ARGUMENT` naming the field; `NOT_FOUND` for the project, for a token that is not
    ///   registered in the project, and for a now-or-never message without a listener; with a retry delay
    ///   `QUOTA_EXCEEDED` for the device (QUO-2), and `RESOURCE_EXHAUSTED` for the project, also if too many
    ///   messages are kept.
    @discardableResult
    public func sendUpstream(
        _ message: Message, from token: String, in project: String, messageID: String,
        timeToLiveSeconds: UInt32? = nil
    ) async throws(MartletError) -> UInt64 {
        let body = try message.encodedUpstream()
        let number = try await number(of: project)
        let (ordinal, holder) = try await holder(of: token, in: number)
        guard let holder else { throw .unexpected }
        let outcome = try await perform(
            .upstream(
                UpstreamCommand(
                    project: number, ordinal: ordinal, holder: holder, target: .project,
                    messageID: messageID, timeToLiveSeconds: timeToLiveSeconds, body: body,
                    size: MessageSize(payloadBytes: message.payloadBytes))))
        guard case .upstreamAccepted(let acceptance, _) = outcome else { throw .unexpected }
        return acceptance.number
    }
}
