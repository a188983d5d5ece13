// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices, and their IDs. Each stored message has an issued number, is counted, and expires; each list of
// IDs belongs to a registered instance. Rests on Checker.

import MartletBase
import MartletRows

extension Checker {
    mutating func checkUpstream() throws(StorageError) {
        var row: (last: UInt64, count: UInt64) = (0, 0)
        do throws(StorageError) {
            row = try transaction.upstream.row(of: project.number)
        } catch {
            try noteDamage(error, in: project.number)
        }
        let last = row.last
        var count: UInt64 = 0
        try forEachRow(of: .upstream, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            count += 1
            let number = entry.key.number
            if number > last {
                it.note(.upstream, "message \(number) was never given its number")
            }
            do throws(StorageError) {
                _ = try UpstreamMessage.find(
                    UpstreamMessage.Wanted(project: it.project.number, number: number),
                    now: Instant(millisecondsSince1970: .min), it.transaction)
            } catch {
                try it.noteDamage(error, in: it.project.number)
            }
            try it.expectDue(.upstream, entry)
        }
        if count != row.count {
            note(.upstream, "there are \(count) messages of devices, \(row.count) are counted")
        }
        try forEachRow(of: .upstreamIDs, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            if !it.universe.contains(ordinal) {
                it.note(.upstream, "ordinal \(ordinal) has message IDs and is not registered")
            }
            guard entry.value.count > 8, (entry.value.count - 8) % UpstreamID.bytes == 0 else {
                it.note(.damagedRecord, "upstreamIDs: a value of \(entry.value.count) bytes")
                return
            }
            try it.expectDue(.upstreamIDs, entry)
        }
    }
}
