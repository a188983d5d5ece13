// SPDX-License-Identifier: Apache-2.0
//
// Keeps receipts that a sender asked for until one takes them (RCP-1, RCP-2). A device reports each kind once per message.
// Rests on the ledgers.

import MartletBase
import MartletRows

extension Engine {
    func receipt(
        _ kind: ReceiptKind, of streamID: UInt64, by ordinal: Ordinal, _ holder: Holder,
        in project: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let instance = try storage.instances.instance(ordinal, in: project),
            instance.holder == holder
        else {
            return .refused(
                MartletError(.unregistered, "The instance is not registered.", field: "token"))
        }
        let sequence = MessageSequence(streamID)
        let last = try storage.projects.project(project)?.lastSequence ?? .none
        let mayExist =
            sequence.isStored
            ? streamID > 0 && sequence <= last
            : NowOrNeverNumbers.instant(of: sequence) <= now
        // We know a message's recipients as long as the store keeps their list; a short one it always keeps. If the list is
        // gone, as for an expired fanout or a message that was never stored, believe any instance of the project.
        var isRecipient = mayExist
        if mayExist {
            isRecipient =
                try storage.recipients.isRecipient(ordinal, of: sequence, in: project) ?? true
        }
        guard isRecipient else {
            return .refused(
                MartletError(
                    .notFound, "The instance is no recipient of such a message.",
                    field: "stream_id"))
        }
        guard
            let number = try storage.receipts.take(
                kind, of: sequence, by: instance, now: now)
        else { return .receiptKept(nil) }
        let receipt = Receipt(
            event: 0, messageNumber: number, token: instance.token, kind: kind, at: now)
        _ = try storage.receipts.append(receipt.bytes, in: project)
        return .receiptKept(project)
    }
}
