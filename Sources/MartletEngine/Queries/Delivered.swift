// SPDX-License-Identifier: Apache-2.0
//
// Finds the recipients that acknowledged a message before it was cancelled (MSG-10). Rests on the ledgers.

package import MartletBase
package import MartletRows

/// Answers to questions about delivered messages (MSG-10).
package enum Delivered {
    /// Counts the recipients that have acknowledged a message.
    /// - Returns: how many; also 0 for a scheduled message, or one that the store doesn't know.
    package static func count(
        of number: UInt64, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> UInt64 {
        guard let sequence = try storage.messages.sequence(ofNumber: number, in: project) else {
            return 0
        }
        return try storage.recipients.deliveredCount(of: sequence, in: project)
    }
}
