// SPDX-License-Identifier: Apache-2.0
//
// Who may register (REG-7), and which topics a device may choose (TOP-10): a project's policies, its registration keys
// and ticket keys, used tickets, and the topics that tickets allow. Rests on the rows.

package import MartletBase
package import MartletRows

/// The records that decide about registrations.
package struct RegistrationLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    // MARK: Policies

    /// A project's policies. Without a row, those of a new project.
    package func policies(of project: ProjectNumber) throws(StorageError) -> ProjectPolicies {
        guard let found = try raw.get(.policies, Key(project)) else { return ProjectPolicies() }
        var reader = RecordReader(found, of: .policies)
        guard let registration = RegistrationPolicy(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        switch try reader.read(UInt8.self) {
        case 0: return ProjectPolicies(registration: registration, topics: .all)
        case 1: return ProjectPolicies(registration: registration, topics: .noTopics)
        case 2:
            let prefixes = try Self.texts(&reader)
            return ProjectPolicies(registration: registration, topics: .prefixes(prefixes))
        default: throw reader.damaged()
        }
    }

    package func put(
        _ policies: ProjectPolicies, of project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(policies.registration.rawValue)
        switch policies.topics {
        case .all: writer.append(0 as UInt8)
        case .noTopics: writer.append(1 as UInt8)
        case .prefixes(let prefixes):
            writer.append(2 as UInt8)
            for prefix in prefixes { writer.append(text: prefix) }
        }
        try raw.put(.policies, Key(project), writer.bytes)
    }

    private static func texts(_ reader: inout RecordReader) throws(StorageError) -> [String] {
        var texts: [String] = []
        while !reader.isAtEnd { texts.append(try reader.text()) }
        return texts
    }

    // MARK: Registration keys

    package func registrationKey(
        id: String, in project: ProjectNumber
    ) throws(StorageError) -> RegistrationKey? {
        guard let place = Self.place(of: id, in: project),
            let found = try raw.get(.registrationKeys, place)
        else { return nil }
        return try Self.registrationKey(id: id, found)
    }

    package func registrationKeys(
        of project: ProjectNumber
    ) throws(StorageError) -> [RegistrationKey] {
        try all(.registrationKeys, of: project, Self.registrationKey)
    }

    private static func registrationKey(
        id: String, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> RegistrationKey {
        var reader = RecordReader(bytes, of: .registrationKeys)
        let isRevoked = try reader.read(UInt32.self) != 0
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        let digest = SecretDigest(bytes: Array(try reader.bytes(32)))
        return RegistrationKey(
            id: id, name: try reader.text(), digest: digest, created: created,
            isRevoked: isRevoked)
    }

    package func put(
        _ key: RegistrationKey, in project: ProjectNumber
    ) throws(StorageError) {
        guard let place = Self.place(of: key.id, in: project) else { return }
        var writer = RecordWriter()
        writer.append(UInt32(key.isRevoked ? 1 : 0))
        writer.append(key.created.millisecondsSince1970)
        writer.bytes += key.digest.bytes
        writer.append(text: key.name)
        try raw.put(.registrationKeys, place, writer.bytes)
    }

    // MARK: Ticket keys

    package func ticketKey(
        id: String, in project: ProjectNumber
    ) throws(StorageError) -> TicketKey? {
        guard let place = Self.place(of: id, in: project),
            let found = try raw.get(.ticketKeys, place)
        else { return nil }
        return try Self.ticketKey(id: id, found)
    }

    package func ticketKeys(of project: ProjectNumber) throws(StorageError) -> [TicketKey] {
        try all(.ticketKeys, of: project, Self.ticketKey)
    }

    private static func ticketKey(
        id: String, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> TicketKey {
        var reader = RecordReader(bytes, of: .ticketKeys)
        let isRevoked = try reader.read(UInt32.self) != 0
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        guard let algorithm = TicketAlgorithm(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        let name = try reader.text()
        return TicketKey(
            id: id, name: name, algorithm: algorithm, material: Array(reader.rest()),
            created: created, isRevoked: isRevoked)
    }

    package func put(_ key: TicketKey, in project: ProjectNumber) throws(StorageError) {
        guard let place = Self.place(of: key.id, in: project) else { return }
        var writer = RecordWriter()
        writer.append(UInt32(key.isRevoked ? 1 : 0))
        writer.append(key.created.millisecondsSince1970)
        writer.append(key.algorithm.rawValue)
        writer.append(text: key.name)
        writer.bytes += key.material
        try raw.put(.ticketKeys, place, writer.bytes)
    }

    /// nil for a text that can't be a key's ID.
    private static func place(of id: String, in project: ProjectNumber) -> Key? {
        guard (1...64).contains(id.utf8.count) else { return nil }
        var key = Key(project)
        key.append(name: id.utf8)
        return key
    }

    private func all<Record>(
        _ table: Table, of project: ProjectNumber,
        _ record: (String, UnsafeRawBufferPointer) throws(StorageError) -> Record
    ) throws(StorageError) -> [Record] {
        let prefix = Key(project)
        let cursor = try Cursor(raw, table)
        var found = try cursor.seek(prefix)
        var result: [Record] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let id = String(decoding: entry.key.dropFirst(4), as: UTF8.self)
            result.append(try record(id, entry.value))
            found = try cursor.next()
        }
        return result
    }

    // MARK: Used tickets

    package func isSpent(
        _ ticket: SecretDigest, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        try raw.get(.spentTickets, Self.place(of: ticket.bytes, in: project)) != nil
    }

    /// Remembers a used ticket until it expires.
    package func spend(
        _ ticket: SecretDigest, expires: Instant, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(expires.millisecondsSince1970)
        try raw.put(.spentTickets, Self.place(of: ticket.bytes, in: project), writer.bytes)
        try raw.put(.due, .due(.ticket, expires, project, ticket.bytes), [])
    }

    /// - Parameter digest: the id of a due row.
    func forget(ticket digest: [UInt8], in project: ProjectNumber) throws(StorageError) {
        try raw.delete(.spentTickets, Self.place(of: digest, in: project))
    }

    private static func place(of digest: [UInt8], in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: digest)
        return key
    }

    // MARK: Topics of tickets

    /// The topics that the instance's ticket allows beside the project's policy (TOP-10).
    package func grants(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> [String] {
        guard let found = try raw.get(.topicGrants, .ordinal(ordinal, in: project)) else {
            return []
        }
        var reader = RecordReader(found, of: .topicGrants)
        return try Self.texts(&reader)
    }

    package func putGrants(
        _ topics: [String], of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        guard !topics.isEmpty else { return }
        var writer = RecordWriter()
        for topic in topics { writer.append(text: topic) }
        try raw.put(.topicGrants, .ordinal(ordinal, in: project), writer.bytes)
    }

    func removeGrants(of ordinal: Ordinal, in project: ProjectNumber) throws(StorageError) {
        try raw.delete(.topicGrants, .ordinal(ordinal, in: project))
    }
}
