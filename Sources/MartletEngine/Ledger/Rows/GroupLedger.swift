// SPDX-License-Identifier: Apache-2.0
//
// Device groups: their names, keys and members. Rests on the rows.

package import MartletBase
package import MartletRows

/// The records of device groups.
package struct GroupLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    package func group(
        _ key: GroupKey, in project: ProjectNumber
    ) throws(StorageError) -> Group? {
        guard let found = try raw.get(.groups, .group(key, in: project)) else { return nil }
        var reader = RecordReader(found, of: .groups)
        let text = try reader.text()
        let name: GroupName
        do { name = try GroupName(validating: text) } catch { throw reader.damaged() }
        let rest = reader.rest()
        guard rest.count % 4 == 0 else { throw reader.damaged() }
        let members = stride(from: 0, to: rest.count, by: 4).map {
            Ordinal(rest.loadLittleEndian(UInt32.self, at: $0))
        }
        return Group(key: key, name: name, members: members)
    }

    package func group(
        named name: GroupName, in project: ProjectNumber
    ) throws(StorageError) -> Group? {
        guard let found = try raw.get(.groupNames, .groupName(name.text, in: project)) else {
            return nil
        }
        return try group(named: found, in: project)
    }

    /// The groups after `name`, in the order of their names, at most `limit`.
    package func groups(
        in project: ProjectNumber, after name: String, limit: Int
    ) throws(StorageError) -> [Group] {
        let prefix = Key(project)
        // With a zero byte the start is right behind `name`, or before all names if it is empty.
        var start = prefix
        start.append(name: name.utf8.prefix(Limits.groupNameBytesMax))
        start.append(byte: 0)
        let cursor = try Cursor(raw, .groupNames)
        var found = try cursor.seek(start)
        var result: [Group] = []
        while let entry = found, prefix.isPrefix(of: entry.key), result.count < limit {
            if let group = try group(named: entry.value, in: project) { result.append(group) }
            found = try cursor.next()
        }
        return result
    }

    private func group(
        named key: UnsafeRawBufferPointer, in project: ProjectNumber
    ) throws(StorageError) -> Group? {
        var reader = RecordReader(key, of: .groupNames)
        let bytes = try reader.bytes(Limits.groupKeyBytes)
        return try group(GroupKey(bytes: Array(bytes)), in: project)
    }

    /// The groups that an instance is in.
    package func groupKeys(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> [GroupKey] {
        let prefix = Key.ordinal(ordinal, in: project)
        let bytes = try keys(.instanceGroups, under: prefix).map {
            Array($0.bytes.dropFirst(prefix.count))
        }
        guard bytes.allSatisfy({ $0.count == Limits.groupKeyBytes }) else {
            throw StorageError(
                operation: "read instanceGroups", code: 0,
                text: "a key has another size; run 'martlet check'", isFull: false)
        }
        return bytes.map { GroupKey(bytes: $0) }
    }

    /// Stores a group that is new, or whose members have changed (GRP-1).
    package func put(
        _ group: Group, in project: ProjectNumber
    ) throws(StorageError) {
        invariant(!group.members.isEmpty, "A group has members from its first to its last.")
        assert(group.members.sorted().isAscending, "An instance is a member of a group once.")
        let before = try self.group(group.key, in: project)
        if before == nil {
            try raw.put(.groupNames, .groupName(group.name.text, in: project), group.key.bytes)
        }
        for ordinal in before?.members ?? [] where !group.members.contains(ordinal) {
            try raw.delete(.instanceGroups, .membership(ordinal, group.key, in: project))
        }
        for ordinal in group.members where before?.members.contains(ordinal) != true {
            try raw.put(.instanceGroups, .membership(ordinal, group.key, in: project), [])
        }
        var writer = RecordWriter()
        writer.append(text: group.name.text)
        for ordinal in group.members { writer.append(ordinal.rawValue) }
        try raw.put(.groups, .group(group.key, in: project), writer.bytes)
    }

    package func remove(
        _ key: GroupKey, in project: ProjectNumber
    ) throws(StorageError) {
        guard let group = try group(key, in: project) else { return }
        for ordinal in group.members {
            try raw.delete(.instanceGroups, .membership(ordinal, key, in: project))
        }
        try raw.delete(.groupNames, .groupName(group.name.text, in: project))
        try raw.deleteFound(.groups, .group(key, in: project))
    }
}
