// SPDX-License-Identifier: Apache-2.0
//
// Instances, their tokens, and numbers that can be used again. Rests on Schema.

public import MartletBase
public import MartletRows

extension Transaction {
    public borrowing func locate(
        _ token: Token
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        try place(of: token, in: .tokens)
    }

    /// REG-4: whose token this was.
    public borrowing func locateFormer(
        _ token: Token
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        try place(of: token, in: .formerTokens)
    }

    private borrowing func place(
        of token: Token, in table: Table
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        guard let found = try raw.get(table, Key(token)) else { return nil }
        var reader = RecordReader(found, of: table)
        let project = ProjectNumber(try reader.read(UInt32.self))
        return (project, Ordinal(try reader.read(UInt32.self)))
    }

    public borrowing func instance(
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

    public borrowing func insert(_ instance: Instance) throws(StorageError) {
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

    /// Token, record, stored messages, watermark; not the sets it is a member of.
    public borrowing func remove(
        _ instance: Instance, now: Instant, limits: MailboxLimits
    ) throws(StorageError) {
        let key = Key.ordinal(instance.ordinal, in: instance.project)
        try countLeft(by: instance, now: now, limits: limits)
        try raw.delete(.tokens, Key(instance.token))
        for token in instance.formerTokens {
            try raw.delete(.formerTokens, Key(token))
        }
        try raw.delete(.instances, key)
        try removeMailbox(of: instance.ordinal, in: instance.project)
        try removeReceiptsTold(by: instance.ordinal, in: instance.project)
        try removeUpstreamIDs(of: instance.ordinal, in: instance.project)
    }

    /// REG-4: the instance goes by another token from now on; the one before becomes a former one,
    /// and the oldest past `Limits.formerTokensMax` is forgotten.
    public borrowing func replaceToken(
        of ordinal: Ordinal, in project: ProjectNumber, with token: Token
    ) throws(StorageError) {
        guard var instance = try instance(ordinal, in: project) else { return }
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

    /// The first row whose key is not below `key`, with a cursor that later searches use again. The
    /// bytes live until the next search in the table.
    borrowing func seek(_ table: Table, _ key: Key) throws(StorageError) -> Cursor.Entry? {
        guard let tally else { return try Cursor(raw, table).seek(key) }
        if let held = tally.cursors[table] { return try held.cursor.seek(key) }
        let held = HeldCursor(try Cursor(raw, table))
        tally.cursors[table] = held
        return try held.cursor.seek(key)
    }

    /// Puts a row that is its project's last one. Those of the project with the highest number are the
    /// table's last ones as well.
    borrowing func putLast(
        _ table: Table, _ key: Key, _ bytes: [UInt8]
    ) throws(StorageError) {
        if mayAppend(table) {
            if try raw.append(table, key, bytes) { return }
            tally?.notAppended.insert(table)
        }
        try raw.put(table, key, bytes)
    }

    /// `bytes` must not lie in the map.
    borrowing func putLast(
        _ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) {
        if mayAppend(table) {
            if try raw.append(table, key, bytes) { return }
            tally?.notAppended.insert(table)
        }
        try raw.put(table, key, bytes)
    }

    private borrowing func mayAppend(_ table: Table) -> Bool {
        tally.map { !$0.notAppended.contains(table) } ?? false
    }

    /// Deletes every row whose key begins with `prefix`.
    borrowing func deleteAll(_ table: Table, under prefix: Key) throws(StorageError) {
        for key in try keys(table, under: prefix) { try raw.delete(table, key) }
    }

    /// Copies of the keys that begin with `prefix`.
    borrowing func keys(_ table: Table, under prefix: Key) throws(StorageError) -> [Key] {
        let cursor = try Cursor(raw, table)
        var found = try cursor.seek(prefix)
        var keys: [Key] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            keys.append(Key(bytes: Array(entry.key)))
            found = try cursor.next()
        }
        return keys
    }

    // MARK: Free numbers

    /// A free number to use again, or nil.
    public borrowing func takeFree(
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
        try raw.delete(.free, key)
        return number
    }

    public borrowing func putFree(
        _ number: UInt32, _ kind: FreeNumberKind, in project: ProjectNumber
    ) throws(StorageError) {
        var key = Key.free(kind, in: project)
        key.append(number)
        try raw.put(.free, key, [])
    }
}

extension Token {
    /// - Parameter bytes: 24 of a record.
    fileprivate init(stored bytes: UnsafeRawBufferPointer) {
        func word(_ offset: Int) -> UInt64 { bytes.loadLittleEndian(UInt64.self, at: offset) }
        self.init(words: (word(0), word(8), word(16)))
    }
}
