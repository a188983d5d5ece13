// SPDX-License-Identifier: Apache-2.0
//
// Groups, their names and the instances' memberships, each against the others (GRP-1). Rests on Checker.

import MartletBase
import MartletRows

extension Checker {
    private static let groupKeyBytes = 4 + Limits.groupKeyBytes

    mutating func checkGroups() throws(StorageError) {
        try checkGroupRecords()
        try checkGroupNames()
        try checkMemberships()
    }

    private mutating func checkGroupRecords() throws(StorageError) {
        let number = project.number
        let sizes = Self.groupKeyBytes...Self.groupKeyBytes
        try forEachRow(of: .groups, keyBytes: sizes) { (it, entry) throws(StorageError) in
            guard let group = try it.group(Array(entry.key.dropFirst(4))) else { return }
            it.report.counts.groups += 1
            let name = group.name.text
            let isValid =
                (1...Limits.groupMembersCeiling).contains(group.members.count)
                && Set(group.members).count == group.members.count
            if !isValid { it.note(.group, "'\(name)' has none, too many or the same members") }
            let back = try it.raw.get(.groupNames, .groupName(name, in: number))
            if back?.elementsEqual(group.key.bytes) != true {
                it.note(.groupIndex, "the name '\(name)' does not lead to its group")
            }
            for ordinal in group.members {
                if !it.universe.contains(ordinal.rawValue) {
                    it.note(
                        .group, "'\(name)' has ordinal \(ordinal.rawValue), who is not registered")
                    continue
                }
                let membership = Key.membership(ordinal, group.key, in: number)
                if try it.raw.get(.instanceGroups, membership) == nil {
                    it.note(
                        .groupIndex,
                        "ordinal \(ordinal.rawValue) is in '\(name)', which is not in its list")
                }
            }
        }
    }

    private mutating func checkGroupNames() throws(StorageError) {
        let sizes = 5...(4 + Limits.groupNameBytesMax)
        try forEachRow(of: .groupNames, keyBytes: sizes) { (it, entry) throws(StorageError) in
            guard entry.value.count == Limits.groupKeyBytes else {
                it.note(.damagedRecord, "groupNames: a value of \(entry.value.count) bytes")
                return
            }
            let name = String(decoding: entry.key.dropFirst(4), as: UTF8.self)
            let key = Array(entry.value)
            // An unreadable group was reported before.
            guard try it.isReadable(key) else { return }
            if try it.group(key)?.name.text != name {
                it.note(.groupIndex, "the name '\(name)' leads to no group of that name")
            }
        }
    }

    private mutating func checkMemberships() throws(StorageError) {
        let sizes = (Self.groupKeyBytes + 4)...(Self.groupKeyBytes + 4)
        try forEachRow(of: .instanceGroups, keyBytes: sizes) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            let key = Array(entry.key.dropFirst(8))
            guard try it.isReadable(key) else { return }
            if try it.group(key)?.members.contains(Ordinal(ordinal)) != true {
                it.note(
                    .groupIndex, "ordinal \(ordinal) has a group in its list and is not in it")
            }
        }
    }

    private func isReadable(_ key: [UInt8]) throws(StorageError) -> Bool {
        do throws(StorageError) {
            _ = try transaction.groups.group(GroupKey(bytes: key), in: project.number)
            return true
        } catch {
            guard error.code == 0 else { throw error }
            return false
        }
    }

    /// The group with a key; nil if there is none, or if it is unreadable, which is reported.
    private mutating func group(_ key: [UInt8]) throws(StorageError) -> Group? {
        do throws(StorageError) {
            return try transaction.groups.group(GroupKey(bytes: key), in: project.number)
        } catch {
            try noteDamage(error, in: project.number)
            return nil
        }
    }
}
