// SPDX-License-Identifier: Apache-2.0
//
// The addresses at push services: each leads to its instance, and each instance back to its address. Rests on Checker.

import MartletBase
import MartletRows

extension Checker {
    mutating func checkBridges() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .bridgeDigests, keyBytes: 36...36) { (it, entry) throws(StorageError) in
            guard entry.value.count == 4 else {
                it.note(.damagedRecord, "bridgeDigests: a value of \(entry.value.count) bytes")
                return
            }
            let ordinal = Ordinal(entry.value.loadLittleEndian(UInt32.self, at: 0))
            let digest = Array(entry.key.dropFirst(4))
            let row = try it.raw.get(.bridges, .ordinal(ordinal, in: number))
            let back = row.flatMap { try? BridgeRow.bridging($0) }
            if back?.address.digest.bytes != digest {
                it.note(
                    .bridgeIndex,
                    "ordinal \(ordinal.rawValue) does not lead to the address that names it")
            }
        }
        try forEachRow(of: .bridges, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal
            guard let bridging = try? BridgeRow.bridging(entry.value) else {
                it.note(.damagedRecord, "bridges: the row of ordinal \(ordinal.rawValue)")
                return
            }
            if !it.universe.contains(ordinal.rawValue) {
                it.note(
                    .bridgeIndex,
                    "an address belongs to ordinal \(ordinal.rawValue), not registered")
            }
            var key = Key(number)
            key.append(name: bridging.address.digest.bytes)
            let there = try it.raw.get(.bridgeDigests, key)
            if there?.count != 4
                || there?.loadLittleEndian(UInt32.self, at: 0) != ordinal.rawValue
            {
                it.note(
                    .bridgeIndex, "the address of ordinal \(ordinal.rawValue) does not lead to it")
            }
        }
        try forEachRow(of: .bridgeKeys, keyBytes: 6...101) { (it, entry) throws(StorageError) in
            if (try? BridgeKeyRow.bridgeKey(entry.key, entry.value)) == nil {
                it.note(.damagedRecord, "bridgeKeys: a row cannot be read")
            }
        }
    }
}
