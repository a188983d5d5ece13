// SPDX-License-Identifier: Apache-2.0
//
// A broker is killed while it migrates its data folder (OPS-3). Rests on FormerStores and Desk.

import FormerStores
import Foundation
import MartletStore
import Testing

@Suite("Killed migrations")
struct MigrationKillTests {
    /// The states of a data folder between the begin and the end of a migration.
    private enum State: Hashable {
        case old, copying, moving, new
    }

    private func state(of folder: String) -> State {
        func exists(_ name: String) -> Bool { access(folder + "/" + name, F_OK) == 0 }
        if exists("migrated") { return .moving }
        if exists("migrating") { return .copying }
        return exists("store-format-6") ? .new : .old
    }

    @Test("A broker killed at 50 moments of a migration loses nothing, and the next broker ends it")
    func killed() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let former = try FormerStore(format: 6)
        var states: [State: Int] = [:]
        for round in 0..<50 {
            let name = "data-\(round)"
            let folder = desk.folder.appending(path: name).path
            try former.write(to: folder, padding: 24 << 20)
            let process = try desk.start(["serve", "--data", name, "--port", "0"])
            // Waits for a moment that is another one in each round: bytes of the copy, or some time after the copy.
            let bytes = round % 2 == 0 ? round << 19 : 24 << 20
            while process.isRunning, state(of: folder) != .new {
                let copy = try? FileManager.default.attributesOfItem(
                    atPath: folder + "/migrating/data.mdb")
                if (copy?[.size] as? Int ?? 0) >= bytes { break }
            }
            if round % 2 == 1 { usleep(UInt32(round) * 2000) }
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            states[state(of: folder), default: 0] += 1
            let store = try Store(StoreConfiguration(folder: folder))
            #expect(try former.differences(in: store) == [], "round \(round)")
            store.close()
            #expect(state(of: folder) == .new)
            #expect(access(folder + "/store-format-6/data.mdb", F_OK) == 0)
            try FileManager.default.removeItem(atPath: folder)
        }
        print("killed migrations: \(states)")
        #expect(states[.copying, default: 0] > 0, "no migration was killed")
    }
}
