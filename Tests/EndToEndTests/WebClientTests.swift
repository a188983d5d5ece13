// SPDX-License-Identifier: Apache-2.0
//
// Pages that use FCM's web SDK, against a real `martlet`: each scenario of `web_clients.py` has
// brokers of its own, as processes, and a push service of others in Python. Rests on ScenarioScript.

import Testing

@Suite("GW-11 Web clients, against the program", .serialized, .timeLimit(.minutes(5)))
struct WebClientTests {
    private static let script = ScenarioScript(
        "web_clients.py", in: "python-sdks-push", "python-sdks")
    static var isInstalled: Bool { script.isInstalled }

    @Test(
        "GW-11 REG-3 REG-7 REP-1 the scenarios of pages",
        .enabled(if: isInstalled, "make python-sdks installs http_ece and h2"),
        arguments: ["door", "registrations", "services", "kills", "addresses"])
    func scenario(_ name: String) throws {
        try Self.script.expect(name)
    }

    @Test(
        "Each scenario of the script is run",
        .enabled(if: isInstalled, "make python-sdks installs http_ece and h2"))
    func all() throws {
        #expect(try Self.script.count() == 5)
    }
}
