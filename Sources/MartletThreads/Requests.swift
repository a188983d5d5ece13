// SPDX-License-Identifier: Apache-2.0
//
// Requests from loops and callers to the committer, with what their outcomes need on the way back. Rests on the engine's
// commands.

package import MartletBase
package import MartletEngine
package import MartletRows
package import MartletTransport
package import MartletWire

/// A command, and the receiver of its outcome.
package struct Request: Sendable {
    package var command: Command
    package var reply: ReplyTo
    /// OPS-7: when the request came, in milliseconds of the monotonic clock. Its wait counts from here, however often the
    /// node's role changes meanwhile.
    package var since: Int64

    package init(
        command: Command, reply: ReplyTo, since: Int64 = SystemClock.monotonicMilliseconds()
    ) {
        (self.command, self.reply, self.since) = (command, reply, since)
    }

    /// OPS-7: whether the command is from another node, which waits for the outcome.
    package var isForwarded: Bool { if case .node = reply { true } else { false } }

    /// The rest of the request.
    package func with(_ command: Command) -> Request {
        Request(command: command, reply: reply, since: since)
    }
}

extension Request {
    /// A request of a caller in the broker's process.
    package init(_ command: Command, _ tell: @escaping @Sendable (Outcome) -> Void) {
        self.init(command: command, reply: .caller(tell))
    }
}

/// The receiver of an outcome.
package enum ReplyTo: Sendable {
    case connection(loop: Int, ConnectionID, RequestContext)
    case caller(@Sendable (Outcome) -> Void)
    /// No receiver. Counts that could not be written are counted again with the next transaction.
    case counting
    /// The loop of a batch of acknowledgements. The loop hands over its next batch when this batch is on disk.
    case acknowledging(loop: Int, batch: UInt64)
    /// The loop of a connection that the store then knows.
    case connected(loop: Int, ConnectionID, connectionNumber: UInt64)
    /// The loop that registered an instance and could not send the token. The loop tries again if the store
    /// refuses to unregister the instance.
    case undoing(loop: Int, Newcomer)
    /// OPS-7: another node, which has numbered the command. The row has the outcome.
    case node(run: UInt32, number: UInt64, epoch: UInt32)
}

/// The loop's part of a request, kept with the request on its way to the committer and back. Secrets that are
/// told once travel here and never reach the store.
package struct RequestContext: Sendable {
    package enum Purpose: Sendable {
        case request
        case registration(deviceKey: String)
        /// A request of a sender or an administrator, with the way from the outcome to the answer.
        case served(@Sendable (Outcome) throws(MartletError) -> Reply<BrokerFrame>)
        /// RCP-1: the peer gets no answer. The request counts as outstanding until its end, like any request of
        /// a connection.
        case receiptsTaken
        /// UPS-1: like `receiptsTaken`, with the numbers of the messages.
        case upstreamTaken([UInt64])
    }

    package var correlation: UInt32
    package var purpose: Purpose
    /// Returned to the request memory with the answer.
    package var charge: RequestCharge

    package init(correlation: UInt32, purpose: Purpose, charge: RequestCharge) {
        (self.correlation, self.purpose, self.charge) = (correlation, purpose, charge)
    }
}

/// The answer to a request, or the way to the answer.
package enum Reply<Answer: Sendable>: Sendable {
    case answer(Answer)
    /// The inquiry answers a question of a connection. Reading a snapshot may take longer than a loop may be away from
    /// its devices.
    case question(@Sendable () throws -> Answer)
}

/// The peer that pays for bytes.
package enum Payer: Sendable, Equatable {
    /// A peer without a credential.
    case stranger(PeerAddress)
    /// A device; nil: the connection of several apps itself.
    case device(ProjectNumber?)
    /// A sender or an administrator; nil: an administrator without a project.
    case sender(ProjectNumber?)
}

/// The bytes of a request, and the peer charged until the answer.
package struct RequestCharge: Sendable {
    package var payer: Payer
    package var byteCount: Int

    package init(payer: Payer, byteCount: Int) {
        (self.payer, self.byteCount) = (payer, byteCount)
    }

    package static let nothing = RequestCharge(payer: .sender(nil), byteCount: 0)
}

/// An instance whose token has not left the broker.
package struct Newcomer: Sendable {
    package let project: ProjectNumber
    package let ordinal: Ordinal
    package let holder: Holder

    package init(_ instance: Instance) {
        project = instance.project
        ordinal = instance.ordinal
        holder = instance.holder
    }
}
