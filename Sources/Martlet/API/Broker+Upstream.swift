// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices to their project (UPS-1): to take them, and to send for a device that is
// managed here. Rests on Broker.

import MartletEngine
import MartletRows
import MartletStore

extension Broker {
    /// UPS-1: what devices of the project send, from the oldest that nobody has taken. Each message
    /// is with one listener at a time, over all iterations and all senders that are connected. It
    /// is taken when the next one is asked for; what is not taken when the iteration ends, or
    /// within 60 seconds, goes to another. So it may come twice, with the same number. Ends when
    /// the task is cancelled.
    public func upstreamMessages(in project: String) -> UpstreamSequence {
        UpstreamSequence(broker: self, project: project)
    }

    /// UPS-1: accepts a message of a device to its project, as if it had sent it: on return it is
    /// on disk, or on its way if `timeToLiveSeconds` is 0. Repeated with the same `messageID`
    /// within 24 hours it is not sent twice, as long as the device has not sent 100 others.
    /// - Parameters:
    ///   - message: data alone.
    ///   - token: the device's.
    ///   - messageID: the device's own, 1 to 128 bytes.
    ///   - timeToLiveSeconds: at most 28 days, which nil is; 0: only if somebody can take it now.
    /// - Returns: the message's number among those of the project's devices.
    /// - Throws: `INVALID_ARGUMENT` naming the field; `NOT_FOUND` for the project, a token that is
    ///   not registered in it, and a message for now or never that nobody can take; with a retry
    ///   delay `QUOTA_EXCEEDED` for the device (QUO-2), and `RESOURCE_EXHAUSTED` for the project,
    ///   also if too many messages are kept.
    @discardableResult
    public func sendUpstream(
        _ message: Message, from token: String, in project: String, messageID: String,
        timeToLiveSeconds: UInt32? = nil
    ) async throws(MartletError) -> UInt64 {
        let body = try message.encodedUpstream()
        let number = try number(of: project)
        let (ordinal, holder) = try ask { (transaction) throws in
            let ordinal = try Listing.locate(token, in: number, transaction)
            return (ordinal, try transaction.instances.instance(ordinal, in: number)?.holder)
        }
        guard let holder else { throw .unexpected }
        let outcome = try await perform(
            .upstream(
                UpstreamCommand(
                    project: number, ordinal: ordinal, holder: holder, target: .project,
                    messageID: messageID, timeToLiveSeconds: timeToLiveSeconds, body: body)))
        guard case .upstreamAccepted(let acceptance, _) = outcome else { throw .unexpected }
        return acceptance.number
    }
}
