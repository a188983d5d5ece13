// SPDX-License-Identifier: Apache-2.0
//
// What the tests of upstream messages share: devices that send, and senders that listen, without
// any connection between them. Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

extension SendBench {
    func upstream(
        _ id: String, from instance: Instance, seconds: UInt32? = nil, body: [UInt8] = [1]
    ) -> Command {
        .upstream(
            UpstreamCommand(
                project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                target: .project, messageID: id, timeToLiveSeconds: seconds, body: body))
    }

    /// Sends and expects acceptance.
    @discardableResult
    func sent(
        _ id: String, from instance: Instance, seconds: UInt32? = nil, body: [UInt8] = [1]
    ) throws -> UpstreamAcceptance {
        let outcome = try apply(upstream(id, from: instance, seconds: seconds, body: body))
        guard case .upstreamAccepted(let acceptance, _) = outcome else { throw Surprise(outcome) }
        return acceptance
    }

    /// Sends and expects a refusal.
    func notSent(
        _ id: String, from instance: Instance, seconds: UInt32? = nil
    ) throws -> MartletError {
        let outcome = try apply(upstream(id, from: instance, seconds: seconds))
        guard case .refused(let error) = outcome else { throw Surprise(outcome) }
        return error
    }

    func listen() -> UInt64 { upstreamBook.listen(to: tides, .loop(0)) }

    func take(_ numbers: UInt64...) throws {
        _ = try apply(.takeUpstream(project: tides, numbers: numbers))
    }

    /// Everything that is handed out until nothing more is.
    func handOut() throws -> [UInt64: [UpstreamMessage]] {
        var handed: [UInt64: [UpstreamMessage]] = [:]
        let (now, store) = (now, store)
        repeat {
            let handings = upstreamBook.handOut(now: now) { wanted in
                try? store.read { (transaction) throws in
                    try UpstreamMessage.find(wanted, now: now, transaction)
                }
            }
            for handing in handings {
                handed[handing.listener, default: []] += handing.messages
            }
        } while upstreamBook.isDue
        return handed
    }

    /// Numbers of the messages that are kept.
    func kept() throws -> [UInt64] {
        let tides = tides
        return try store.read { (transaction) throws in
            let numbers = try transaction.upstream.messages(in: tides, after: 0, limit: .max).map(
                \.number)
            #expect(try transaction.upstream.count(in: tides) == UInt64(numbers.count))
            return numbers
        }
    }
}
