// SPDX-License-Identifier: Apache-2.0
//
// The way of a request through the broker: one way for the requests of connections and for the calls of an embedder. A
// request says what the broker does for it: a command that is committed, or a question to a snapshot. The loops and
// `Broker` carry out the plan. Each request of `FrameType.requests` is a `ServedRequest`, in a file of this folder; a
// test holds the list to this. Rests on Answerer and the engine's commands.

import MartletBase
import MartletEngine
import MartletThreads
import MartletWire

/// A request that the broker serves.
protocol ServedRequest: WireRequest {
    /// Whether the acknowledgements of a loop's devices go to the committer before the request's command, because the
    /// outcome depends on them.
    static var comesAfterAcknowledgements: Bool { get }
    /// OPS-7: whether the answer is about the work of this process, so that it waits for no newer store.
    static var isAboutProcess: Bool { get }
    /// Decides what the broker does.
    /// - Throws: `MartletError` for a principal that may not ask.
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Answer>
}

extension ServedRequest {
    static var comesAfterAcknowledgements: Bool { false }
    static var isAboutProcess: Bool { false }
}

/// A request that changes nothing. Any snapshot of the store answers the request.
protocol ServedQuestion: ServedRequest {
    /// - Throws: `MartletError` for the peer, `StorageError`.
    func answer(to principal: Principal, _ answerer: Answerer) throws -> Answer
}

extension ServedQuestion {
    func plan(for principal: Principal, _ answerer: Answerer) -> Plan<Answer> {
        .reply(.question { try answer(to: principal, answerer) })
    }
}

extension Plan where Answer == Done {
    /// A command whose answer tells only that the command is done.
    static func command(_ command: Command) -> Self {
        .command(command) { _ in .answer(Done()) }
    }
}

extension Reply where Answer: WireAnswer {
    /// The reply on a connection.
    func framed(_ correlation: UInt32) -> Reply<BrokerFrame> {
        switch self {
        case .answer(let answer): .answer(answer.frame(correlation))
        case .question(let question):
            .question { try question().frame(correlation) }
        }
    }
}

extension Plan where Answer: WireAnswer {
    /// The plan for a request of a connection.
    func framed(_ correlation: UInt32) -> Plan<BrokerFrame> {
        switch self {
        case .reply(let reply): .reply(reply.framed(correlation))
        case .command(let command, let then):
            .command(command) { outcome throws(MartletError) in
                try then(outcome).framed(correlation)
            }
        }
    }
}

extension WireAnswer {
    fileprivate func frame(_ correlation: UInt32) -> BrokerFrame {
        var answer = self
        answer.correlation = correlation
        return .answer(answer)
    }
}

extension RequestFrame {
    /// The request, as the broker serves it.
    var served: any ServedRequest {
        get throws(MartletError) {
            guard let served = value as? any ServedRequest else {
                throw MartletError(.protocolViolation, "The broker does not serve \(value.type).")
            }
            return served
        }
    }
}

extension FrameType {
    /// Whether the broker serves each request.
    package static var servesAllRequests: Bool {
        requests.allSatisfy { $0 is any ServedRequest.Type }
    }
}

extension MartletError {
    static var unexpected: MartletError {
        MartletError(.internal, "The engine answered something else than was asked.")
    }
}
