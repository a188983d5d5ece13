// SPDX-License-Identifier: Apache-2.0
//
// Messages, whom they are for, and what was acknowledged. A message whose few recipients have all
// unregistered has no row in the inbox any more, and that is in order; one with many keeps its
// blob for good. Rests on Checker.

import MartletBase
import MartletBits
import MartletEngine

extension Checker {
    mutating func checkMessages() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .messages, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let sequence = MessageSequence(entry.key.loadBigEndian(UInt64.self, at: 4))
            it.report.counts.messages += 1
            if sequence == .none || sequence > it.project.lastSequence {
                it.note(.messageSequence, "message \(sequence.rawValue) was never issued")
            }
            let count: UInt64
            do throws(StorageError) {
                guard let found = try it.transaction.storedRecipientCount(sequence, entry.value)
                else { return }
                count = found
            } catch {
                try it.noteDamage(error, in: number)
                return
            }
            let blob = try it.raw.get(.recipients, .sequence(sequence, in: number))
            if (blob != nil) != (count > UInt64(inboxRecipientsMax)) {
                it.note(
                    .recipients,
                    "message \(sequence.rawValue) for \(count) instances "
                        + (blob == nil ? "has no blob" : "has a blob"))
            }
            if let blob { it.check(blob, of: sequence, count: count) }
        }
        try forEachRow(of: .recipients, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let sequence = MessageSequence(entry.key.loadBigEndian(UInt64.self, at: 4))
            if try it.raw.get(.messages, .sequence(sequence, in: number)) == nil {
                it.note(.recipients, "a blob has no message \(sequence.rawValue)")
            }
        }
    }

    private mutating func check(
        _ blob: UnsafeRawBufferPointer, of sequence: MessageSequence, count: UInt64
    ) {
        // The map aligns values to two bytes only, and a copy to what validation asks for.
        guard let set = RecipientSet(copying: blob), set.count == count,
            isInOrder(set.view)
        else {
            note(.recipients, "the blob of message \(sequence.rawValue) is damaged")
            return
        }
        report.counts.recipients += count
    }

    /// Whether every block has the members it says, in order, and none that was never issued.
    private func isInOrder(_ view: RecipientSetView) -> Bool {
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            var previous = -1
            var members = 0
            var isAscending = true
            block.view.forEachBit { bit in
                isAscending = isAscending && bit > previous
                previous = bit
                members += 1
            }
            let last = Ordinal(block: block.block, bit: max(previous, 0))
            guard isAscending, members == block.count, previous < BlockGeometry.bitsPerBlock,
                last < project.nextOrdinal
            else { return false }
        }
        return true
    }

    mutating func checkInbox() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .inbox, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.loadBigEndian(UInt32.self, at: 4)
            let sequence = MessageSequence(entry.key.loadBigEndian(UInt64.self, at: 8))
            it.report.counts.recipients += 1
            if !it.universe.contains(ordinal) {
                it.note(.inbox, "ordinal \(ordinal) is not registered")
            } else if try it.raw.get(.messages, .sequence(sequence, in: number)) == nil {
                it.note(.inbox, "ordinal \(ordinal) waits for no message \(sequence.rawValue)")
            } else if try it.raw.get(.recipients, .sequence(sequence, in: number)) != nil {
                it.note(.inbox, "message \(sequence.rawValue) has a blob and inbox rows")
            }
        }
    }

    mutating func checkAcknowledgements() throws(StorageError) {
        let number = project.number
        let last = project.lastSequence
        try forEachRow(of: .watermarks, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = Ordinal(entry.key.loadBigEndian(UInt32.self, at: 4))
            let watermark: MessageSequence
            do throws(StorageError) {
                watermark = try it.transaction.watermark(of: ordinal, in: number)
            } catch {
                try it.noteDamage(error, in: number); return
            }
            if !it.universe.contains(ordinal.rawValue) {
                it.note(.watermark, "ordinal \(ordinal.rawValue) is not registered")
            }
            if watermark > last {
                it.note(
                    .watermark,
                    "ordinal \(ordinal.rawValue) is at \(watermark.rawValue) of \(last.rawValue)")
            }
        }
        try forEachRow(of: .acknowledged, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = Ordinal(entry.key.loadBigEndian(UInt32.self, at: 4))
            let sequence = entry.key.loadBigEndian(UInt64.self, at: 8)
            guard it.universe.contains(ordinal.rawValue) else {
                it.note(.acknowledgement, "ordinal \(ordinal.rawValue) is not registered")
                return
            }
            let watermark: MessageSequence
            do throws(StorageError) {
                watermark = try it.transaction.watermark(of: ordinal, in: number)
            } catch {
                try it.noteDamage(error, in: number); return
            }
            if sequence <= watermark.rawValue || sequence > last.rawValue {
                it.note(
                    .acknowledgement,
                    """
                    ordinal \(ordinal.rawValue) acknowledged \(sequence), with its watermark at \
                    \(watermark.rawValue) and the last message \(last.rawValue)
                    """)
            }
        }
    }
}
