// SPDX-License-Identifier: Apache-2.0
//
// What a loop asks of the requests of senders and administrators: what the broker does for one, and the answers to questions.
// The loop knows none of the requests. Rests on MartletThreads.

import MartletBase
import MartletEngine
import MartletThreads
import MartletTransport
import MartletWire

/// What the broker does for a request.
enum Plan<Answer: Sendable>: Sendable {
    case reply(Reply<Answer>)
    /// The command is committed first. A refusal is the answer; any other outcome leads to the reply.
    case command(Command, then: @Sendable (Outcome) throws(MartletError) -> Reply<Answer>)
}

/// What the broker does for a request of a connection.
struct ConnectionPlan: Sendable {
    var correlation: UInt32
    var plan: Plan<BrokerFrame>
    /// Whether the acknowledgements of a loop's devices go to the committer before the request's command, because the
    /// outcome depends on them.
    var comesAfterAcknowledgements: Bool
    /// OPS-7: whether the answer is about the work of this process, so that it waits for no newer store.
    var isAboutProcess: Bool
}

/// A question from a connection of a loop.
struct Question: Sendable {
    let loop: Int
    let connection: ConnectionID
    let correlation: UInt32
    /// Returned to the request memory with the answer.
    let charge: RequestCharge
    /// OPS-7: whether the question waits for no newer store.
    var isAboutProcess = false
    let answer: @Sendable () throws -> BrokerFrame
}

/// Plans requests, and answers questions on a thread of its own.
protocol RequestHandler: Sendable {
    /// - Throws: `MartletError` for a request that the broker does not serve, and for a principal that may not ask.
    func plan(
        for request: RequestFrame, of principal: Principal
    ) throws(MartletError) -> ConnectionPlan
    /// - Parameter mustFit: take the question although too many wait, because its command has been applied already.
    func ask(_ question: Question, mustFit: Bool) throws(MartletError)
}
