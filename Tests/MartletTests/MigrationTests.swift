// SPDX-License-Identifier: Apache-2.0
//
// A broker that opens a data folder of an older format (OPS-3). How a store is migrated is tested in MartletStoreTests.

import Foundation
import Martlet
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("Brokers on older data folders")
struct MigrationTests {
    @Test("OPS-3: a broker migrates its folder before it serves, and tells each percent")
    func migrates() async throws {
        let folder = TemporaryFolder()
        try await TestBroker.open(in: folder).broker.close()
        let former = storeFormatVersion - 1
        let store = try Store(StoreConfiguration(folder: folder.path))
        try store.write { (transaction) throws(StorageError) in
            var writer = RecordWriter()
            writer.append(former)
            try transaction.raw.put(.meta, Key(bytes: Array("format".utf8)), writer.bytes)
        }
        store.close()
        let told = Mutex<[MigrationProgress]>([])
        let test = try await TestBroker.open(in: folder) { configuration in
            configuration.migrationSteps = [MigrationStep(from: former) { _, _ in }]
            configuration.migrating = { progress in told.withLock { $0.append(progress) } }
        }
        let progress = told.withLock { $0 }
        #expect(progress.first?.percent == 0 && progress.last?.percent == 100, "\(progress)")
        #expect(
            progress.allSatisfy {
                $0.fromFormat == former && $0.toFormat == storeFormatVersion
            })
        let (device, _) = try test.newDevice()
        try device.roundTrip()
        try await test.broker.close()
        try FileManager.default.removeItem(atPath: "\(folder.path)/store-format-\(former)")
    }
}
