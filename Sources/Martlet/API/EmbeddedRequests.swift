// SPDX-License-Identifier: Apache-2.0
//
// The requests of an embedder: carried out as the requests of a connection are, without a frame and without a thread
// for questions. Rests on ServedRequest.

import MartletBase
import MartletCommitter
import MartletEngine
import MartletThreads
import MartletWire

/// The way of requests in the broker's process.
struct EmbeddedRequests: RequestPerformer {
    typealias Failure = MartletError

    let broker: Broker
    /// The project whose sender asks; nil: an administrator asks.
    let projectID: String?

    func ask<Request: WireRequest>(
        _ request: Request
    ) async throws(MartletError) -> Request.Answer {
        let served = try RequestFrame(request).served
        guard let answer = try await perform(served) as? Request.Answer else { throw .unexpected }
        return answer
    }

    private func perform<Served: ServedRequest>(
        _ request: Served
    ) async throws(MartletError) -> Served.Answer {
        guard let projectID else {
            return try await broker.perform(request, as: .administrator(nil))
        }
        return try await broker.perform(request, in: projectID)
    }
}

extension Broker {
    /// Carries out a request of a project's sender.
    /// - Throws: the refusal of the request; `NOT_FOUND` for the project.
    func perform<Served: ServedRequest>(
        _ request: Served, in project: String
    ) async throws(MartletError) -> Served.Answer {
        try await perform(request, as: .sender(try await number(of: project)))
    }

    func perform<Served: ServedRequest>(
        _ request: Served, as principal: Principal
    ) async throws(MartletError) -> Served.Answer {
        let project = principal.project
        let plan = try counting(in: project) { () throws(MartletError) in
            try request.plan(for: principal, answerer)
        }
        switch plan {
        case .reply(let reply): return try await answer(reply, in: project)
        case .command(let command, let then):
            let outcome = try await perform(command)
            let reply = try counting(in: project) { () throws(MartletError) in try then(outcome) }
            return try await answer(reply, in: project)
        }
    }

    /// Answers a question of a project's sender from a snapshot, on the caller's thread.
    /// - Throws: the error of the question; `NOT_FOUND` for the project.
    func answer<Served: ServedQuestion>(
        _ question: Served, in project: String
    ) throws(MartletError) -> Served.Answer {
        let principal = Principal.sender(try number(of: project))
        let refusal = committer.waitForNewer()
        return try counting(in: principal.project) { () throws(MartletError) in
            if let refusal { throw refusal }
            return try answer { try question.answer(to: principal, answerer) }
        }
    }

    private func answer<Answer>(
        _ reply: Reply<Answer>, in project: ProjectNumber?
    ) async throws(MartletError) -> Answer {
        switch reply {
        case .answer(let answer): return answer
        case .question(let question):
            let refusal = committer.node == nil ? nil : await committer.newer()
            return try counting(in: project) { () throws(MartletError) in
                if let refusal { throw refusal }
                return try answer(question)
            }
        }
    }

    private func answer<Answer>(
        _ question: () throws -> Answer
    ) throws(MartletError) -> Answer {
        do { return try question() } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }
}
