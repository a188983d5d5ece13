// SPDX-License-Identifier: Apache-2.0
//
// Lists a project's scheduled messages for people to look at (MSG-10, GW-9). Rests on ScheduleLedger.

package import MartletBase
import MartletEngine

/// A message that waits for its time.
package struct ScheduledSummary: Sendable, Hashable {
    package var number: UInt64
    package var due: Instant
}

extension Broker {
    /// Scheduled messages in the order of their numbers.
    /// - Parameters:
    ///   - after: no message has this number or a lower number.
    ///   - limit: 1 to 1000 messages.
    /// - Throws: `NOT_FOUND` for the project.
    package func scheduled(
        in project: String, after: UInt64, limit: Int
    ) throws(MartletError) -> [ScheduledSummary] {
        let number = try number(of: project)
        let limit = min(max(limit, 1), Limits.pageEntriesMax)
        guard after < .max else { return [] }
        return try ask { (transaction) throws in
            try transaction.scheduled.messages(in: number, from: after + 1, limit: limit)
                .map { ScheduledSummary(number: $0.number, due: $0.due) }
        }
    }
}
