// SPDX-License-Identifier: Apache-2.0
//
// The bridge of a real `martlet` to a server that behaves as Apple documents its push service, in Python with h2 from PyPI.
// aioapns from PyPI sends the same messages. Each scenario of `apns_scenarios.py` has a broker of its own, as a process.
// Rests on ScenarioScript.

import Testing

@Suite("APNs, against the program", .serialized, .timeLimit(.minutes(10)))
struct APNsTests {
    private static let script = ScenarioScript("apns_scenarios.py", in: "python-sdks-apns")
    static var isInstalled: Bool { script.isInstalled }

    @Test(
        "GW-11 GW-17 REG-3 MSG-5 the scenarios of the bridge to Apple's push service",
        .enabled(if: isInstalled, "make python-sdks installs aioapns and h2"),
        arguments: [
            "headers", "imports", "answers", "keys", "live", "silent", "kinds", "sending", "poison",
            "streams",
            "trust", "outages", "kills",
        ])
    func scenario(_ name: String) throws {
        try Self.script.expect(name)
    }

    @Test(
        "Each scenario of the bridge's script is run",
        .enabled(if: isInstalled, "make python-sdks installs aioapns and h2"))
    func all() throws {
        #expect(try Self.script.count() == 13)
    }
}
