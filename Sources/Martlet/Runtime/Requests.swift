// SPDX-License-Identifier: Apache-2.0
//
// What travels between the threads: requests from loops and callers to the committer, and what comes
// of them to the loops. Rests on the engine's commands.

import MartletBase
import MartletEngine
import MartletRing
import MartletWire

/// A command and whom to tell what came of it.
struct Request: Sendable {
    var command: Command
    var reply: ReplyTo
}

/// Whom to tell.
enum ReplyTo: Sendable {
    case connection(loop: Int, ConnectionID, RequestContext)
    case caller(@Sendable (Outcome) -> Void)
    /// The loop, which hands over its next acknowledgements when these are on disk.
    case acknowledging(loop: Int)
}

/// What a loop needs to answer a request, kept with it on its way to the committer and back. Secrets
/// that are told once travel here and never reach the store.
struct RequestContext: Sendable {
    enum Purpose: Sendable {
        case request
        case registration(deviceKey: String)
        case keyCreation(serverKey: String)
    }

    var correlation: UInt32
    var purpose: Purpose = .request
}

/// What a loop is told by other threads.
enum LoopMessage: Sendable {
    case outcome(ConnectionID, RequestContext, Outcome)
    /// What was asked is answered.
    case answer(ConnectionID, BrokerFrame)
    case fanout(Fanout)
    /// An instance connected to another loop (NET-4).
    case connected(ProjectNumber, Ordinal, connectionNumber: UInt64)
    /// An instance is gone; its connection ends.
    case disconnect(ProjectNumber, Ordinal, Holder?)
    /// The acknowledgements that the loop handed over are on disk, or lost.
    case acknowledged
    /// NET-5: finish what was accepted, then end.
    case drain
}

/// How to reach a loop.
struct LoopHandle: Sendable {
    let inbox: Inbox<LoopMessage>
    let address: RingAddress
    let waker: RingWaker
}
