// SPDX-License-Identifier: Apache-2.0
//
// Questions to the store. Where a log has newer rows, they wait for them (OPS-7). Rests on Freshness.

import MartletBase
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
package import MartletThreads

extension Broker {
    /// Whether a question asked now need not wait (OPS-7).
    package var isCurrent: Bool {
        committer.node?.isCurrent(at: SystemClock.monotonicNanoseconds()) ?? true
    }

    /// Waits, without blocking a thread, until the store has everything that any node has answered so far
    /// (OPS-7). Questions asked with the returned freshness don't wait.
    package func newest() async -> Freshness {
        let asked = SystemClock.monotonicNanoseconds()
        if let refusal = await committer.newer() {
            let now = SystemClock.monotonicNanoseconds()
            return .refused(refusal, until: now + (committer.node?.questionNanoseconds ?? 0))
        }
        return .since(asked)
    }

    /// Answers a question from a snapshot. Waits for newer rows without blocking a thread.
    /// - Throws: the question's error, or `UNAVAILABLE` if the store can't be read or is behind its log.
    func ask<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) async throws(MartletError) -> Answer {
        if committer.node != nil, let refusal = await committer.newer() { throw refusal }
        return try read(question)
    }

    /// Answers a question from a snapshot. Waiting for newer rows blocks the thread, unless the caller has
    /// waited before (`Freshness`).
    /// - Throws: the question's error, or `UNAVAILABLE` if the store can't be read or is behind its log.
    func ask<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) throws(MartletError) -> Answer {
        if let refusal = committer.waitForNewer() { throw refusal }
        return try read(question)
    }

    /// Answers a question from a snapshot that may be behind its log: for settings that the next question reads
    /// again, and for callers who know that the store has what they ask for.
    /// - Throws: the question's error, or `UNAVAILABLE` if the store can't be read.
    func read<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) throws(MartletError) -> Answer {
        do {
            return try store.read { (transaction) throws in try question(transaction) }
        } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }

    // MARK: Numbers of projects

    /// A project's number. It never changes, so only an unknown ID waits for newer rows.
    /// - Throws: `NOT_FOUND` if there is no such project.
    func number(of id: String) throws(MartletError) -> ProjectNumber {
        if committer.node != nil, let known = try knownNumber(of: id) { return known }
        return try ask { try Authentication.project(id: id, in: $0) }.number
    }

    /// Likewise, without blocking a thread.
    func number(of id: String) async throws(MartletError) -> ProjectNumber {
        if committer.node != nil {
            if let known = try knownNumber(of: id) { return known }
            if let refusal = await committer.newer() { throw refusal }
        }
        return try read { try Authentication.project(id: id, in: $0) }.number
    }

    private func knownNumber(of id: String) throws(MartletError) -> ProjectNumber? {
        do throws(MartletError) {
            return try read { try Authentication.project(id: id, in: $0) }.number
        } catch {
            guard error.word == .notFound else { throw error }
            return nil
        }
    }
}
