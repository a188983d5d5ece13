// SPDX-License-Identifier: Apache-2.0
//
// Instances: the record of an ordinal, the tokens that lead to it, and free ordinals. Rests on the rows.

package import MartletBase
import MartletBits
package import MartletRows

/// The records of instances, and the tokens that lead to them.
package struct InstanceLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    package func locate(
        _ token: Token
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        try place(of: token, in: .tokens)
    }

    /// The instance that had the token before a rotation (REG-4).
    package func locateFormer(
        _ token: Token
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        try place(of: token, in: .formerTokens)
    }

    private func place(
        of token: Token, in table: Table
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        guard let found = try raw.get(table, Key(token)) else { return nil }
        var reader = RecordReader(found, of: table)
        let project = ProjectNumber(try reader.read(UInt32.self))
        return (project, Ordinal(try reader.read(UInt32.self)))
    }

    package func instance(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Instance? {
        guard let found = try raw.get(.instances, .ordinal(ordinal, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .instances)
        let token = Token(stored: try reader.bytes(Limits.tokenRandomBytes))
        let stored = try reader.bytes(32)
        func word(_ offset: Int) -> UInt64 { stored.loadLittleEndian(UInt64.self, at: offset) }
        let digest = SecretDigest(words: (word(0), word(8), word(16), word(24)))
        let registered = Instant(millisecondsSince1970: try reader.read(Int64.self))
        let app = AppNumber(try reader.read(UInt32.self))
        guard
            let platform = Platform(
                rawValue: UInt8(truncatingIfNeeded: try reader.read(UInt32.self)))
        else { throw reader.damaged() }
        let registeredBehind = MessageSequence(try reader.read(UInt64.self))
        var former: [Token] = []
        while reader.offset < found.count {
            former.append(Token(stored: try reader.bytes(Limits.tokenRandomBytes)))
        }
        return Instance(
            project: project, ordinal: ordinal, token: token, formerTokens: former,
            keyDigest: digest, app: app, platform: platform, registered: registered,
            registeredBehind: registeredBehind)
    }

    package func insert(_ instance: Instance) throws(StorageError) {
        invariant(instance.ordinal.isUsable, "The last 128 ordinals of a block are never issued.")
        assert(instance.formerTokens.count <= Limits.formerTokensMax, "Former tokens are bounded.")
        var writer = RecordWriter()
        writer.bytes += instance.token.bytes
        writer.bytes += instance.keyDigest.bytes
        writer.append(instance.registered.millisecondsSince1970)
        writer.append(instance.app.rawValue)
        writer.append(UInt32(instance.platform.rawValue))
        writer.append(instance.registeredBehind.rawValue)
        for token in instance.formerTokens { writer.bytes += token.bytes }
        try raw.put(.instances, .ordinal(instance.ordinal, in: instance.project), writer.bytes)
        var place = RecordWriter()
        place.append(instance.project.rawValue)
        place.append(instance.ordinal.rawValue)
        try raw.put(.tokens, Key(instance.token), place.bytes)
    }

    /// Gives the instance another token (REG-4). The one before becomes a former token. Past `Limits.formerTokensMax`
    /// of them the oldest is forgotten.
    package func replaceToken(
        of ordinal: Ordinal, in project: ProjectNumber, with token: Token
    ) throws(StorageError) {
        guard var instance = try instance(ordinal, in: project) else { return }
        invariant(token != instance.token, "A new token differs from the token before.")
        let before = Key(instance.token)
        try raw.delete(.tokens, before)
        var place = RecordWriter()
        place.append(project.rawValue)
        place.append(ordinal.rawValue)
        try raw.put(.formerTokens, before, place.bytes)
        instance.formerTokens.append(instance.token)
        if instance.formerTokens.count > Limits.formerTokensMax {
            let oldest = instance.formerTokens.removeFirst()
            try raw.delete(.formerTokens, Key(oldest))
        }
        instance.token = token
        try insert(instance)
    }

    /// Takes the lowest free number; nil if there is none.
    package func takeFree(
        _ kind: FreeNumberKind, in project: ProjectNumber
    ) throws(StorageError) -> UInt32? {
        let prefix = Key.free(kind, in: project)
        let key: Key
        let number: UInt32
        do {
            let cursor = try Cursor(raw, .free)
            guard let entry = try cursor.seek(prefix), prefix.isPrefix(of: entry.key),
                entry.key.count == prefix.count + 4
            else { return nil }
            key = Key(bytes: Array(entry.key))
            number = entry.key.freeNumber
        }
        try raw.deleteFound(.free, key)
        return number
    }

    package func putFree(
        _ number: UInt32, _ kind: FreeNumberKind, in project: ProjectNumber
    ) throws(StorageError) {
        var key = Key.free(kind, in: project)
        key.append(number)
        guard try raw.get(.free, key) == nil else {
            throw .contradiction(.free, "a number in use is free")
        }
        try raw.put(.free, key, [])
    }

    /// The holder of an ordinal.
    package func holder(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Holder? {
        guard let found = try raw.get(.instances, .ordinal(ordinal, in: project)) else {
            return nil
        }
        return try InstanceRow.holder(found)
    }
}

extension Token {
    /// - Parameter bytes: the token's 24 bytes in a record.
    fileprivate init(stored bytes: UnsafeRawBufferPointer) {
        func word(_ offset: Int) -> UInt64 { bytes.loadLittleEndian(UInt64.self, at: offset) }
        self.init(words: (word(0), word(8), word(16)))
    }
}
