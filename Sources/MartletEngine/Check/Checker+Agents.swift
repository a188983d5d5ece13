// SPDX-License-Identifier: Apache-2.0
//
// The channels of Web Push user agents: each leads to its instance, and each instance back to its channel. Rests on
// Checker.

import MartletBase
import MartletRows

extension Checker {
    mutating func checkAgents() throws(StorageError) {
        let bytesCount = 32 + AgentChannel.channelBytes
        let number = project.number
        let keyBytes = 4 + bytesCount
        try forEachRow(of: .agents, keyBytes: keyBytes...keyBytes) {
            (it, entry) throws(StorageError) in
            guard entry.value.count == 4 else {
                it.note(.damagedRecord, "agents: a value of \(entry.value.count) bytes")
                return
            }
            let ordinal = Ordinal(entry.value.loadLittleEndian(UInt32.self, at: 0))
            let channel = Array(entry.key.dropFirst(4))
            let back = try it.raw.get(.agentChannels, .ordinal(ordinal, in: number))
            if back?.elementsEqual(channel) != true {
                it.note(
                    .agentIndex,
                    "ordinal \(ordinal.rawValue) does not lead to the channel that names it")
            }
        }
        try forEachRow(of: .agentChannels, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal
            guard entry.value.count == bytesCount else {
                it.note(.damagedRecord, "agentChannels: a value of \(entry.value.count) bytes")
                return
            }
            if !it.universe.contains(ordinal.rawValue) {
                it.note(
                    .agentIndex,
                    "a channel belongs to ordinal \(ordinal.rawValue), not registered")
            }
            var key = Key(number)
            key.append(name: Array(entry.value))
            let there = try it.raw.get(.agents, key)
            if there?.count != 4
                || there?.loadLittleEndian(UInt32.self, at: 0) != ordinal.rawValue
            {
                it.note(
                    .agentIndex, "the channel of ordinal \(ordinal.rawValue) does not lead to it")
            }
        }
    }
}
