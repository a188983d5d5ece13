// SPDX-License-Identifier: Apache-2.0
//
// What a service manager is told while a broker migrates its folder. Rests on ServiceManager.

import Martlet
import MartletCommand
import Testing

@Suite("States for a service manager")
struct ServiceManagerStateTests {
    @Test(
        "OPS-3 each percent of a migration prolongs the time of a start, and is its status",
        arguments: [
            (0, "Migrating the data folder from format 13 to 14: 0 %"),
            (99, "Migrating the data folder from format 13 to 14: 99 %"),
            (100, "Migrated the data folder from format 13 to 14"),
        ])
    func migrating(percent: Int, status: String) {
        let progress = MigrationProgress(fromFormat: 13, toFormat: 14, percent: percent)
        #expect(
            ServiceManager.state(of: progress)
                == "EXTEND_TIMEOUT_USEC=300000000\nSTATUS=\(status)")
    }
}
