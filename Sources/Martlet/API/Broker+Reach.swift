// SPDX-License-Identifier: Apache-2.0
//
// Tells how many recipients of a message are connected now, for the composer (GW-9). The recipients are resolved in a
// snapshot, and each loop intersects them with its connected instances. An instance that moves between loops meanwhile is
// counted once. Rests on LoopSurveys and Reach.

import MartletBits
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
package import MartletWire

/// The recipients of a message that is not sent.
package struct ReachSummary: Sendable, Hashable {
    /// Recipients before quotas.
    package var recipientCount: UInt64
    /// Recipients with a connection at the moment of the answer.
    package var connectedCount: UInt64
}

extension Broker {
    /// Counts the recipients of a message, and those of them that are connected.
    /// - Throws: `INVALID_ARGUMENT`, `UNREGISTERED` and `SENDER_ID_MISMATCH` as for a send; `NOT_FOUND` for the project;
    ///   `UNAVAILABLE` with a retry delay.
    package func reach(
        of message: OutgoingMessage, in project: String
    ) async throws(MartletError) -> ReachSummary {
        try await reach(of: try SendCommand(message, projectID: project), in: project)
    }

    /// Counts the instances that a condition selects, and those of them that are connected.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project, `UNAVAILABLE` with
    ///   a retry delay.
    package func reach(
        ofCondition condition: String, in project: String
    ) async throws(MartletError) -> ReachSummary {
        try await reach(of: SendCommand(target: .condition(condition), body: []), in: project)
    }

    private func reach(
        of command: SendCommand, in project: String
    ) async throws(MartletError) -> ReachSummary {
        let number = try await number(of: project)
        let (now, limits, programs) = (clock(), limits, committer.programs)
        let recipients = try await ask { (transaction) throws in
            try Reach.recipients(
                of: command, in: number, programs, limits: limits, now: now, transaction)
        }
        guard recipients.count > 0 else {
            return ReachSummary(recipientCount: 0, connectedCount: 0)
        }
        var connected: [RecipientSet] = []
        for answer in try await survey(.connected(among: recipients, of: number)) {
            if case .connected(let set) = answer { connected.append(set) }
        }
        return ReachSummary(
            recipientCount: recipients.count,
            connectedCount: RecipientSet.union(of: connected).count)
    }
}
