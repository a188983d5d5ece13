// SPDX-License-Identifier: Apache-2.0
//
// Limits of the broker and of a project as users of the `martlet` executable set them: `--limit` of `serve`, SIGHUP, and
// `martlet project set --limit` (OPS-2, OPS-11). Rests on Desk.

import Foundation
import Testing

@Suite("martlet serve --limit and project set --limit", .timeLimit(.minutes(3)))
struct LimitCommandTests {
    private struct Project: Decodable {
        struct Limit: Decodable, Equatable {
            var value: Int
            var own: Bool
        }
        var project: String
        var conditionTopicsMax: Int
        var limits: [String: Limit]
    }

    private func withBroker(
        _ settings: [String] = [], _ body: (Desk, Process) throws -> Void
    ) throws {
        let desk = try Desk()
        defer { desk.remove() }
        for project in ["tides", "winds"] {
            #expect(try desk.run("project", "create", project).status == 0)
        }
        let (broker, _) = try desk.serve(settings)
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        try body(desk, broker)
    }

    private func projects(_ desk: Desk) throws -> [String: Project] {
        let output = try desk.run("project", "list", "--json")
        #expect(output.status == 0, "\(output.err)")
        let projects = try JSONDecoder().decode([Project].self, from: Data(output.out.utf8))
        return Dictionary(uniqueKeysWithValues: projects.map { ($0.project, $0) })
    }

    /// Sends as administrator.
    private func send(
        _ desk: Desk, _ more: String..., bytes: Int = 1, project: String = "tides"
    ) throws -> Desk.Output {
        let text = "n=" + String(repeating: "x", count: bytes - 1)
        return desk.finish(
            try desk.start(["send", "--project", project, "--data", text, "--topic", "t"] + more))
    }

    @Test(
        "OPS-2 MSG-3 TTL-1 CON-3 TOP-6 a project's own limits are set, shown, obeyed and taken back, beside those of the broker"
    )
    func ownLimits() throws {
        try withBroker([
            "--limit", "payload-bytes-max=100", "--limit", "topics-per-condition-max=3",
            "--limit", "time-to-live-seconds-max=60",
        ]) { desk, _ in
            #expect(try send(desk, bytes: 100).status == 0)
            let long = try send(desk, bytes: 101)
            #expect(long.status == 1 && long.err.contains("at most 100 are allowed"), "\(long)")
            #expect(try send(desk, "--ttl", "61").err.contains("0 to 60 seconds"))
            let set = try desk.run(
                "project", "set", "tides", "--limit", "payload-bytes-max=5000", "--limit",
                "time-to-live-seconds-max=120", "--limit", "topics-per-condition-max=4",
                "--limit", "topic-changes-per-second=7")
            #expect(set.status == 0, "\(set.err)")
            #expect(
                set.out.contains(
                    "Limits of its own: payload-bytes-max=5000, time-to-live-seconds-max=120, "
                        + "topic-changes-per-second=7, topics-per-condition-max=4."), "\(set.out)")
            #expect(try send(desk, "--ttl", "120", bytes: 5000).status == 0)
            #expect(try send(desk, bytes: 5001).err.contains("at most 5000 are allowed"))
            // The other project has the broker's.
            #expect(try send(desk, bytes: 101, project: "winds").status == 1)
            let all = try projects(desk)
            #expect(all["tides"]?.limits["payload-bytes-max"] == .init(value: 5000, own: true))
            #expect(all["winds"]?.limits["payload-bytes-max"] == .init(value: 100, own: false))
            #expect(all["tides"]?.limits["group-members"] == .init(value: 20, own: false))
            #expect(all["tides"]?.conditionTopicsMax == 4 && all["winds"]?.conditionTopicsMax == 3)
            let table = try desk.run("project", "list").out
            #expect(table.contains("OWN LIMITS") && table.contains("payload-bytes-max=5000"))
            let quotas = try desk.run("quotas", "--project", "tides", "--json").out
            #expect(quotas.contains(#""limit":7"#) || quotas.contains(#""limit" : 7"#), "\(quotas)")
            let back = try desk.run(
                "project", "set", "tides", "--limit", "payload-bytes-max=broker", "--json")
            #expect(back.status == 0, "\(back.err)")
            let one = try JSONDecoder().decode(Project.self, from: Data(back.out.utf8))
            #expect(one.limits["payload-bytes-max"] == .init(value: 100, own: false))
            #expect(one.limits["time-to-live-seconds-max"] == .init(value: 120, own: true))
            #expect(try send(desk, bytes: 101).status == 1)
        }
    }

    @Test("OPS-2 wrong limits of a project are refused with their bounds, and nothing is changed")
    func refused() throws {
        try withBroker { desk, _ in
            for (text, sentence) in [
                ("group-members=0", "--limit group-members takes a whole number from 1 to 1000"),
                ("group-members=1001", "or the word broker, not '1001'"),
                ("payload-bytes-max=12289", "from 1 to 12288"),
                ("time-to-live-seconds-max=31536001", "from 1 to 31536000"),
                ("topics-per-condition-max=65", "from 1 to 64"),
                ("group-members", "--limit group-members takes a whole number"),
                ("group-members=many", "not 'many'"),
                ("inactive-seconds=5", "Names: topics-per-instance-max"),
            ] {
                let output = try desk.run(
                    "project", "set", "tides", "--limit", "topics-per-instance-max=5", "--limit",
                    text)
                #expect(output.status != 0 && output.err.contains(sentence), "\(output.err)")
            }
            #expect(try projects(desk)["tides"]?.limits.values.allSatisfy { !$0.own } == true)
            let nowhere = try desk.run(
                "project", "set", "nowhere", "--limit", "group-members=5")
            #expect(nowhere.status == 1 && nowhere.err.contains("NOT_FOUND"))
        }
        let desk = try Desk()
        defer { desk.remove() }
        for text in [
            "payload-bytes-max=0", "payload-bytes-max=12289", "time-to-live-seconds-max=0",
            "topics-per-condition-max=65", "discard-notice-seconds=0",
        ] {
            let output = try desk.run("serve", "--port", "0", "--limit", text)
            #expect(output.status != 0 && output.err.contains("takes a whole number from 1 to"))
        }
    }

    @Test("OPS-11 a project's own limit stays when SIGHUP changes the broker's, others follow")
    func reload() throws {
        let desk = try Desk()
        defer { desk.remove() }
        for project in ["tides", "winds"] {
            #expect(try desk.run("project", "create", project).status == 0)
        }
        // Without a broker the command changes the folder itself.
        #expect(
            try desk.run("project", "set", "tides", "--limit", "payload-bytes-max=50").status == 0)
        let file = desk.folder.appending(path: "martlet.conf")
        func write(_ bytes: Int) throws {
            try "limit = payload-bytes-max=\(bytes)\n".write(
                to: file, atomically: true, encoding: .utf8)
        }
        try write(100)
        let (broker, _) = try desk.serve(["--config", "martlet.conf"])
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        #expect(try send(desk, bytes: 100, project: "winds").status == 0)
        #expect(try send(desk, bytes: 101, project: "winds").status == 1)
        try write(200)
        kill(broker.processIdentifier, SIGHUP)
        while try projects(desk)["winds"]?.limits["payload-bytes-max"]?.value != 200 {}
        while try send(desk, bytes: 200, project: "winds").status != 0 {}
        #expect(try send(desk, bytes: 201, project: "winds").status == 1)
        #expect(try send(desk, bytes: 50).status == 0)
        #expect(try send(desk, bytes: 51).err.contains("at most 50 are allowed"))
    }
}
