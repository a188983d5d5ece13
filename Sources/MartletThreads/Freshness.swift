// SPDX-License-Identifier: Apache-2.0
//
// How new the store must be that a call's questions are answered from (OPS-7). Callers that must not block their thread first
// await `Broker.newest` and then ask: by then the store is new enough, and the question returns at once. Rests on nothing.

package import MartletBase

/// How new the store must be for a call's questions.
package enum Freshness: Sendable {
    /// As it is: an answer from any moment will do, or a refusal will be looked at again.
    case any
    /// It must have everything that any node had answered at this time, in nanoseconds of the monotonic clock.
    case since(UInt64)
    /// It is behind and the log doesn't answer: refuse every question until then.
    case refused(MartletError, until: UInt64)

    /// For the calls of a task, or the synchronous calls within `ask`; nil if each question waits for itself.
    @TaskLocal package static var current: Freshness?

    /// Asks questions with this freshness.
    package func ask<Answer, Failure: Error>(
        _ questions: () throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let result = Self.$current.withValue(self) { () -> Result<Answer, Failure> in
            do throws(Failure) { return .success(try questions()) } catch { return .failure(error) }
        }
        return try result.get()
    }

    /// Runs a task's calls with this freshness.
    package func carryOut<Answer: Sendable>(
        _ calls: () async throws -> Answer
    ) async throws -> Answer {
        try await Self.$current.withValue(self, operation: calls)
    }
}
