// SPDX-License-Identifier: Apache-2.0
//
// The values that travel between threads: requests from loops and callers to the committer, and messages to the
// loops. Rests on the engine's commands.

import MartletBase
package import MartletEngine
import MartletRows
import MartletThreads
import MartletTransport
import MartletWire

/// A command, and the receiver of its outcome.
package struct Request: Sendable {
    package var command: Command
    var reply: ReplyTo
    /// OPS-7: when the request came, in milliseconds of the monotonic clock. Its wait counts from here, however often the
    /// node's role changes meanwhile.
    var since = SystemClock.monotonicMilliseconds()

    /// OPS-7: whether another node of the cluster waits for the outcome.
    var isOfNode: Bool { if case .node = reply { true } else { false } }

    /// The rest of the request.
    func with(_ command: Command) -> Request {
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
enum ReplyTo: Sendable {
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
    /// OPS-7: another node of the cluster, which has numbered the command. The row has the outcome.
    case node(run: UInt32, number: UInt64, epoch: UInt32)
}

/// The loop's part of a request, kept with the request on its way to the committer and back. Secrets that are
/// told once travel here and never reach the store.
struct RequestContext: Sendable {
    enum Purpose: Sendable {
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

    var correlation: UInt32
    var purpose: Purpose = .request
    /// Returned to the request memory with the answer.
    var charge: RequestCharge
}

/// A message of another thread to a loop.
enum LoopMessage: Sendable {
    case outcome(ConnectionID, RequestContext, Outcome)
    /// The inquiry's answer to a question.
    case answer(ConnectionID, RequestCharge, BrokerFrame)
    case news(News)
    /// A batch of the loop's acknowledgements is on disk, or the store refused the batch. A refused batch comes
    /// with the departures and the lists in HELLOs of the batch, for another hand-over.
    case acknowledged(batch: UInt64, areStored: Bool, again: [Acknowledgement])
    /// The store knows of an instance's connection, and has all news of the connections before.
    case stored(ConnectionID, connectionNumber: UInt64)
    /// The store could not be told of an instance's connection.
    case notStored(ConnectionID)
    /// The store could not unregister a newcomer.
    case notUndone(Newcomer)
    /// NET-6: the strangers of an address hold too much memory.
    case endStrangers(PeerAddress)
    /// UPS-1: messages of devices for a listener of the loop.
    case upstream(UInt64, [UpstreamMessage])
    /// OPS-7: the node is drained, and the loop rests; or undrained, and the loop serves again.
    case rest(Bool)
    /// GW-9: a question to all loops, with its number among the surveys.
    case asked(LoopQuestion, by: LoopSurveys, number: UInt64)
    /// OPS-7: the run of this node has ended, and its connections count as lost: devices connect again.
    case runEnded
    /// OPS-7: the store is as new as some waiting HELLOs need.
    case fresh
    /// NET-5: finish accepted requests, then end.
    case shutDown
}

/// The means to reach a loop.
struct LoopHandle: Sendable {
    let inbox: Inbox<LoopMessage>
    let address: TransportAddress
    let waker: TransportWaker
}
