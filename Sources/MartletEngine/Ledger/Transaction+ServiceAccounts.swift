// SPDX-License-Identifier: Apache-2.0
//
// Service-account keys: few, small records. Rests on Schema.

public import MartletBase
public import MartletRows

extension Transaction {
    public borrowing func serviceAccountKey(
        id: String
    ) throws(StorageError) -> ServiceAccountKey? {
        // What cannot be an ID may be what cannot be a key.
        guard (1...Limits.serviceAccountIDBytesMax).contains(id.utf8.count),
            let found = try raw.get(.serviceAccounts, Key(bytes: Array(id.utf8)))
        else { return nil }
        return try serviceAccountKey(id: id, found)
    }

    public borrowing func serviceAccountKeys(
        of project: ProjectNumber
    ) throws(StorageError) -> [ServiceAccountKey] {
        let cursor = try Cursor(raw, .serviceAccounts)
        var found = try cursor.seek(Key(bytes: [0]))
        var result: [ServiceAccountKey] = []
        while let entry = found {
            let id = String(decoding: entry.key, as: UTF8.self)
            let key = try serviceAccountKey(id: id, entry.value)
            if key.project == project { result.append(key) }
            found = try cursor.next()
        }
        return result
    }

    private borrowing func serviceAccountKey(
        id: String, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> ServiceAccountKey {
        var reader = RecordReader(bytes, of: .serviceAccounts)
        let project = ProjectNumber(try reader.read(UInt32.self))
        let isRevoked = try reader.read(UInt32.self) != 0
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return ServiceAccountKey(
            id: id, project: project, name: try reader.text(), clientEmail: try reader.text(),
            publicKey: Array(reader.rest()), created: created, isRevoked: isRevoked)
    }

    public borrowing func put(_ key: ServiceAccountKey) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(key.project.rawValue)
        writer.append(UInt32(key.isRevoked ? 1 : 0))
        writer.append(key.created.millisecondsSince1970)
        writer.append(text: key.name)
        writer.append(text: key.clientEmail)
        writer.bytes += key.publicKey
        try raw.put(.serviceAccounts, Key(bytes: Array(key.id.utf8)), writer.bytes)
    }
}
