// SPDX-License-Identifier: Apache-2.0
//
// What travels between the threads: requests from loops and callers to the committer, and what comes
// of them to the loops. Rests on the engine's commands.

import MartletBase
package import MartletEngine
import MartletRing
import MartletRows
import MartletWire

/// A command and whom to tell what came of it.
package struct Request: Sendable {
    package var command: Command
    var reply: ReplyTo
}

extension Request {
    /// What a caller in the broker's process asks.
    package init(_ command: Command, _ tell: @escaping @Sendable (Outcome) -> Void) {
        self.init(command: command, reply: .caller(tell))
    }
}

/// Whom to tell.
enum ReplyTo: Sendable {
    case connection(loop: Int, ConnectionID, RequestContext)
    case caller(@Sendable (Outcome) -> Void)
    /// Nobody, but what could not be written is counted again with the next transaction.
    case counting
    /// The loop, which hands over its next acknowledgements when these are on disk.
    case acknowledging(loop: Int, batch: UInt64)
    /// The loop whose connection the store then knows of.
    case connected(loop: Int, ConnectionID, connectionNumber: UInt64)
    /// The loop that registered an instance which nobody knows of, if the store does not take that back.
    case undoing(loop: Int, Newcomer)
}

/// What a loop needs to answer a request, kept with it on its way to the committer and back. Secrets
/// that are told once travel here and never reach the store.
struct RequestContext: Sendable {
    enum Purpose: Sendable {
        case request
        case registration(deviceKey: String)
        case keyCreation(serverKey: String)
        /// RCP-1: nothing is answered, but it is outstanding until it is done, as everything is that a
        /// connection may ask for.
        case receiptsTaken
        /// UPS-1: as `receiptsTaken`.
        case upstreamTaken([UInt64])
    }

    var correlation: UInt32
    var purpose: Purpose = .request
    /// Given back with the answer.
    var charge: RequestCharge
}

/// What a loop is told by other threads.
enum LoopMessage: Sendable {
    case outcome(ConnectionID, RequestContext, Outcome)
    /// What was asked is answered.
    case answer(ConnectionID, RequestCharge, BrokerFrame)
    case fanout(Fanout)
    /// FAN-2: a project's share from now on.
    case weight(ProjectNumber, Int)
    /// An instance connected to another loop (NET-4).
    case connected(ProjectNumber, Ordinal, connectionNumber: UInt64)
    /// An instance is gone; its connection ends.
    case disconnect(ProjectNumber, Ordinal, Holder?)
    /// A batch of acknowledgements that the loop handed over is on disk, or the store could not take it:
    /// then these of them must not be lost.
    case acknowledged(batch: UInt64, areStored: Bool, departures: [Acknowledgement])
    /// The store knows of an instance's connection, and of all that those before it left.
    case stored(ConnectionID, connectionNumber: UInt64)
    /// The store could not be told of an instance's connection.
    case notStored(ConnectionID)
    /// The store could not take a registration back.
    case notUndone(Newcomer)
    /// REG-9: a credential of senders ends.
    case revoked(keyID: String)
    /// MSG-10: nobody is given the message any more who has not been.
    case cancel(ProjectNumber, MessageSequence)
    /// RCP-1: there are receipts for the project's senders.
    case receipts(ProjectNumber)
    /// UPS-1: messages of devices for one of the loop's listeners.
    case upstream(UInt64, [UpstreamMessage])
    /// NET-5: finish what was accepted, then end.
    case drain
}

/// How to reach a loop.
struct LoopHandle: Sendable {
    let inbox: Inbox<LoopMessage>
    let address: RingAddress
    let waker: RingWaker
}
