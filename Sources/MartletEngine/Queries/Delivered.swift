// SPDX-License-Identifier: Apache-2.0
//
// MSG-10: how many recipients have a message already, which is what is asked of one that was cancelled:
// those whose acknowledgements cover it. Rests on the ledgers.

public import MartletBase
public import MartletRows

public enum Delivered {
    /// - Returns: 0 also where nothing is known of the message any more, or it is only scheduled.
    public static func count(
        of number: UInt64, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> UInt64 {
        guard let sequence = try storage.messages.sequence(ofNumber: number, in: project) else {
            return 0
        }
        return try storage.recipients.deliveredCount(of: sequence, in: project)
    }
}
