// SPDX-License-Identifier: Apache-2.0
//
// Questions of an operator that all loops answer (GW-9). The state of a loop belongs to its thread, so the question goes to
// the inbox of each loop, and each loop answers between two turns of its work. A loop takes some microseconds for an
// answer, and never waits. Rests on Inbox.

package import MartletBase
package import MartletBits
package import MartletDelivery
import MartletTransport
import Synchronization

/// A question to a loop.
package enum LoopQuestion: Sendable {
    /// Which members of a set are connected?
    case connected(among: RecipientSet, of: ProjectNumber)
    /// GW-11: the same for the door to push services. A loop ends connections of the set whose devices do not answer.
    case answering(among: RecipientSet, of: ProjectNumber)
    /// Where does the connection of an instance come from, and how does it stand?
    case connection(of: Ordinal, in: ProjectNumber)
}

/// The answer of a loop.
package enum LoopAnswer: Sendable {
    case connected(RecipientSet)
    /// nil: the instance is not connected to the loop.
    case connection(LoopConnection?)
}

/// An instance's connection to a loop.
package struct LoopConnection: Sendable {
    /// Rises with every connection of the broker.
    package var number: UInt64
    package var loop: Int
    package var address: PeerAddress
    /// Seconds since the beginning of the connection.
    package var seconds: Int64
    package var state: DeviceState
    package var session: SessionLook

    package init(
        number: UInt64, loop: Int, address: PeerAddress, seconds: Int64, state: DeviceState,
        session: SessionLook
    ) {
        (self.number, self.loop, self.address) = (number, loop, address)
        (self.seconds, self.state, self.session) = (seconds, state, session)
    }
}

/// The open questions of a broker.
package final class LoopSurveys: Sendable {
    /// Questions at a time. A loop answers between two turns, so a further question is rare and asked again.
    package static let openMax = 256

    private struct Survey {
        var loopsLeft: Int
        var answers: [LoopAnswer] = []
        let tell: @Sendable ([LoopAnswer]?) -> Void
    }

    private struct State {
        var open: [UInt64: Survey] = [:]
        var lastNumber: UInt64 = 0
        var isClosed = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Asks loops.
    /// - Returns: an answer of each loop, in any order.
    /// - Throws: `UNAVAILABLE` for too many questions at a time, and if the broker closes before the last answer.
    package func ask(
        _ question: LoopQuestion, _ loops: [LoopHandle]
    ) async throws(MartletError) -> [LoopAnswer] {
        guard !loops.isEmpty else { return [] }
        let answers = await withCheckedContinuation {
            (continuation: CheckedContinuation<[LoopAnswer]?, Never>) in
            let number = begin(loops.count) { continuation.resume(returning: $0) }
            guard let number else { return continuation.resume(returning: nil) }
            for loop in loops {
                let message = LoopMessage.asked(question, by: self, number: number)
                if case .taken(mustWake: true) = loop.inbox.push([message]) { loop.waker.wake() }
            }
        }
        guard let answers else {
            throw MartletError(
                .unavailable, "The broker is asked more than it can answer, or closes; try again.",
                retryDelayMilliseconds: 500)
        }
        return answers
    }

    /// - Returns: the number of the survey; nil: no further question is taken now.
    private func begin(
        _ loopCount: Int, _ tell: @escaping @Sendable ([LoopAnswer]?) -> Void
    ) -> UInt64? {
        state.withLock { state in
            guard !state.isClosed, state.open.count < Self.openMax else { return nil }
            state.lastNumber += 1
            state.open[state.lastNumber] = Survey(loopsLeft: loopCount, tell: tell)
            return state.lastNumber
        }
    }

    /// Takes the answer of a loop. The last answer ends the survey.
    package func take(_ answer: LoopAnswer, to number: UInt64) {
        let done = state.withLock { state -> Survey? in
            guard var survey = state.open[number] else { return nil }
            survey.answers.append(answer)
            survey.loopsLeft -= 1
            state.open[number] = survey.loopsLeft > 0 ? survey : nil
            return survey.loopsLeft > 0 ? nil : survey
        }
        done?.tell(done?.answers)
    }

    /// Ends the open questions without an answer, because the loops have ended. Later questions are refused.
    package func close() {
        let left = state.withLock { state in
            state.isClosed = true
            defer { state.open = [:] }
            return state.open.values.map { $0 }
        }
        for survey in left { survey.tell(nil) }
    }
}
