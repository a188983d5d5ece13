// SPDX-License-Identifier: Apache-2.0
//
// A store of the format before the present one, and the step that migrates it. No released program wrote an older format, so
// the tests make one up: topics count their subscribers in four bytes instead of eight. Rests on RawStore and EngineBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import MartletStore

struct FormerStore {
    static let format = storeFormatVersion - 1
    /// More topics than a transaction of a migration changes.
    private static let topicCount = MigratedCopy.rowsMax + 500

    static let step = MigrationStep(from: format) { copy, advance in
        try copy.forEachRow(of: .topics, advance) { (key, value, rows) throws(StorageError) in
            guard value.count > 4 else {
                throw value.withUnsafeBytes { RecordReader($0, of: .topics).damaged() }
            }
            let wide = Array(value[..<4]) + [0, 0, 0, 0] + Array(value[4...])
            try rows.put(.topics, Key(bytes: key), wide)
        }
    }

    /// An instance with waiting messages.
    let instance: Instance
    let waiting: [Waiting]
    let now: Instant
    /// The rows as the present program wrote them, which a migration must give again.
    let present: [String: [[UInt8]: [UInt8]]]
    /// The rows of the former format.
    let rows: [String: [[UInt8]: [UInt8]]]

    /// Makes a data folder.
    init(in folder: String) throws {
        let bench = Bench(limits: .none, store: try Store(StoreConfiguration(folder: folder)))
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        let tokens = instances.map(\.token.text)
        _ = try bench.apply(
            (0..<Self.topicCount).map {
                .changeTopic(
                    project: project, topic: "topic\($0)", change: .subscribe, tokens: tokens)
            })
        for n in 0..<3 { _ = try bench.accepted(.topic("topic\(n)"), in: project) }
        _ = try bench.accepted(.token(tokens[0]), in: project)
        instance = instances[0]
        waiting = try bench.mailbox(instance).waiting
        now = bench.now
        let store = bench.store as! Store
        store.close()
        present = try RawStore(folder: folder).rows()
        try Self.makeFormer(in: folder)
        rows = try RawStore(folder: folder).rows()
    }

    /// Gives a store of the present format the rows of the former format.
    static func makeFormer(in folder: String) throws {
        let store = try Store(StoreConfiguration(folder: folder))
        try makeFormer(store)
        store.close()
    }

    static func makeFormer(_ store: Store) throws {
        try store.write { (transaction) throws(StorageError) in
            var changed: [(key: [UInt8], value: [UInt8])] = []
            do {
                let cursor = try Cursor(transaction.raw, .topics)
                var entry = try cursor.seek(Key(bytes: [0]))
                while let found = entry {
                    let value = Array(found.value)
                    changed.append((Array(found.key.bytes), Array(value[..<4] + value[8...])))
                    entry = try cursor.next()
                }
            }
            for (key, value) in changed {
                try transaction.raw.put(.topics, Key(bytes: key), value)
            }
            try transaction.raw.put(.meta, Key(bytes: Array("format".utf8)), little(format))
        }
    }
}
