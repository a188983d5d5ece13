// SPDX-License-Identifier: Apache-2.0
//
// The Web Push door of a real `martlet`: pywebpush from PyPI sends, and a user agent in Python receives. Each scenario
// of `push_scenarios.py` has a broker of its own, as a process. Rests on ScenarioScript.

import Testing

@Suite("Web Push, against the program", .serialized, .timeLimit(.minutes(5)))
struct WebPushTests {
    private static let script = ScenarioScript("push_scenarios.py", in: "python-sdks-push")
    static var isInstalled: Bool { script.isInstalled }

    @Test(
        "GW-12 GW-13 MSG-11 the scenarios of senders and user agents",
        .enabled(if: isInstalled, "make python-sdks installs pywebpush"),
        arguments: [
            "dialects", "rfc8291", "heads", "vapid", "answers", "withdrawals", "absence",
            "repetition", "identities", "registrations", "mailbox", "urgency", "retries", "kills",
            "hostility", "stopping",
        ])
    func scenario(_ name: String) throws {
        try Self.script.expect(name)
    }

    @Test(
        "Each scenario of the script is run",
        .enabled(if: isInstalled, "make python-sdks installs pywebpush"))
    func all() throws {
        #expect(try Self.script.count() == 16)
    }
}
