// SPDX-License-Identifier: Apache-2.0
//
// Where foreign push services reach instances, which instance an address belongs to, and the projects' keys for these services
// (GW-11). Rests on the rows.

package import MartletBase
package import MartletRows

/// The bridge addresses of instances, and the keys of projects for push services.
package struct BridgeLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    // MARK: Addresses

    /// Where an instance is reached; nil if it has no bridge address.
    package func bridging(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bridging? {
        guard let found = try raw.get(.bridges, .ordinal(ordinal, in: project)) else { return nil }
        return try BridgeRow.bridging(found)
    }

    /// The instance that has an address; nil if none in the project has it.
    package func ordinal(
        of address: BridgeAddress, in project: ProjectNumber
    ) throws(StorageError) -> Ordinal? {
        guard let found = try raw.get(.bridgeDigests, Self.place(of: address, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .bridgeDigests)
        return Ordinal(try reader.read(UInt32.self))
    }

    /// The instances that have a bridge address, in the order of their ordinals.
    /// - Parameters:
    ///   - start: the first ordinal to look at.
    ///   - limit: most instances to read.
    package func all(
        in project: ProjectNumber, from start: Ordinal, limit: Int
    ) throws(StorageError) -> [(ordinal: Ordinal, bridging: Bridging)] {
        let prefix = Key(project)
        let cursor = try Cursor(raw, .bridges)
        var found = try cursor.seek(.ordinal(start, in: project))
        var all: [(ordinal: Ordinal, bridging: Bridging)] = []
        while all.count < limit, let entry = found, prefix.isPrefix(of: entry.key) {
            all.append((entry.key.ordinal, try BridgeRow.bridging(entry.value)))
            found = try cursor.next()
        }
        return all
    }

    /// Gives an instance an address in place of the one it had.
    /// - Returns: which other instance had the address until now.
    func put(
        _ bridging: Bridging, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Ordinal? {
        let former = try self.ordinal(of: bridging.address, in: project)
        if let former, former != ordinal { try remove(of: former, in: project) }
        try remove(of: ordinal, in: project)
        var writer = RecordWriter()
        writer.append(ordinal.rawValue)
        try raw.put(
            .bridgeDigests, Self.place(of: bridging.address, in: project), writer.bytes)
        try raw.put(.bridges, .ordinal(ordinal, in: project), BridgeRow.bytes(bridging))
        return former == ordinal ? nil : former
    }

    /// Removes an instance's address, if it has one.
    func remove(of ordinal: Ordinal, in project: ProjectNumber) throws(StorageError) {
        guard let known = try bridging(of: ordinal, in: project) else { return }
        try raw.delete(.bridgeDigests, Self.place(of: known.address, in: project))
        try raw.delete(.bridges, .ordinal(ordinal, in: project))
    }

    private static func place(of address: BridgeAddress, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: address.digest.bytes)
        return key
    }

    // MARK: Keys

    /// A project's keys for all push services, in the order of services and IDs.
    package func keys(of project: ProjectNumber) throws(StorageError) -> [BridgeKey] {
        let prefix = Key(project)
        let cursor = try Cursor(raw, .bridgeKeys)
        var found = try cursor.seek(prefix)
        var keys: [BridgeKey] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            keys.append(try BridgeKeyRow.bridgeKey(entry.key, entry.value))
            found = try cursor.next()
        }
        return keys
    }

    func put(_ key: BridgeKey, in project: ProjectNumber) throws(StorageError) {
        try raw.put(
            .bridgeKeys, BridgeKeyRow.key(key.kind, key.id, in: project), BridgeKeyRow.bytes(key))
    }

    /// - Returns: whether the project had the key.
    func removeKey(
        _ kind: BridgeKind, _ id: String, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        try raw.delete(.bridgeKeys, BridgeKeyRow.key(kind, id, in: project))
    }
}
