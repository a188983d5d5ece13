// SPDX-License-Identifier: Apache-2.0
//
// What is in progress, as users of the `martlet` executable see and limit it (FAN-1, FAN-2, FAN-7,
// FAN-8). A ceiling of one delivery a second keeps a message to many on its way for as long as there
// are devices. Rests on Desk.

import Foundation
import MartletBase
import MartletWire
import Testing

@Suite(.timeLimit(.minutes(2)))
struct FanoutCommandTests {
    @Test("FAN-1 FAN-2: weight and policy of a project are set on the folder and through a broker")
    func projects() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        for misuse in [
            ["tides"], ["tides", "--weight", "0"], ["tides", "--weight", "1001"],
            ["tides", "--on-overload", "wait"], ["tides", "--condition-topics", "65"],
        ] {
            #expect(desk.finish(try desk.start(["project", "set"] + misuse)).status == 64)
        }
        let unknown = try desk.run("project", "set", "nobody", "--weight", "2")
        #expect(unknown.status == 1 && unknown.err.contains("NOT_FOUND"))
        #expect(
            try desk.run("project", "set", "tides", "--weight", "3").out
                == "Project tides: weight 3, on overload defer, up to 5 topics in a condition.\n")
        #expect(
            try desk.run("project", "set", "tides", "--condition-topics", "64").out
                == "Project tides: weight 3, on overload defer, up to 64 topics in a condition.\n")
        let nobody = try desk.run("top", "--once")
        #expect(nobody.status == 1 && nobody.err.contains("No broker serves"))
        #expect(try desk.run("fanouts").out == "Nothing is in progress.\n")

        let (broker, _) = try desk.serve()
        let changed = try desk.run(
            "project", "set", "tides", "--on-overload", "refuse", "--json")
        #expect(changed.out.contains("\"onOverload\":\"refuse\""))
        #expect(changed.out.contains("\"weight\":3"))
        let list = try desk.run("project", "list")
        #expect(list.out.contains("ON OVERLOAD") && list.out.contains("refuse"))
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test(
        "FAN-1 FAN-7 FAN-8: fanouts and top show what is in progress below a ceiling, and what waits"
    )
    func running() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(try desk.run("serve", "--deliveries-per-second", "x").status == 64)
        #expect(try desk.run("serve", "--limit", "fanouts=1").status == 64)
        let (broker, port) = try desk.serve([
            "--limit", "fanouts-in-progress=1", "--deliveries-per-second", "1",
        ])
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        let registrationKey = try desk.registrationKey(of: "tides")
        let devices = try (0..<90).map { _ in
            let device = try WireClient(port: try #require(UInt16(port)))
            #expect(
                try device.hello(
                    .newDevice(
                        projectID: "tides", appName: "com.example.tides", platform: .android,
                        credential: .key(registrationKey))))
            device.send(
                DeviceTopicsRequest(operation: .subscribe, correlation: 1, topics: ["storm"]))
            guard case .topicResult = try device.receive() else {
                throw WireClient.Failure(text: "no subscription")
            }
            return device
        }
        let first = try desk.run(
            "send", "--project", "tides", "--topic", "storm", "--title", "1")
        #expect(first.out.hasSuffix("  accepted for 90 instances\n"))
        let second = try desk.run(
            "send", "--project", "tides", "--topic", "storm", "--title", "2")
        #expect(second.out.hasSuffix("  deferred, number 1 of those that wait\n"))
        let third = try desk.run(
            "send", "--project", "tides", "--topic", "storm", "--title", "3", "--json", "--key",
            key, "--port", port)
        #expect(third.out.contains("\"deferredPlace\":2"))

        struct Fanout: Decodable {
            var project: String
            var messageID: String
            var kind: String
            var target: String
            var deferredPlace: Int?
            var recipients: UInt64
            var delivered: UInt64
            var progress: Double
            var share: Double
        }
        for more in [[], ["--project", "tides"], ["--project", "tides", "--key", key]] {
            let listed = desk.finish(
                try desk.start(["fanouts", "--json", "--port", port] + more))
            let fanouts = try JSONDecoder().decode([Fanout].self, from: Data(listed.out.utf8))
            try #require(fanouts.map(\.deferredPlace) == [nil, 1, 2])
            #expect(fanouts.allSatisfy { $0.project == "tides" && $0.target == "storm" })
            #expect(fanouts[0].messageID == "projects/tides/messages/1")
            #expect(fanouts[0].recipients == 90 && fanouts[0].delivered < 90)
            #expect(fanouts[0].progress < 1 && fanouts[0].share == 1)
        }
        let table = try desk.run("fanouts")
        #expect(table.out.contains("PROGRESS") && table.out.contains("waits, 2."))
        #expect(try desk.run("fanouts", "--key", key).status == 64)

        struct Status: Decodable {
            struct Project: Decodable {
                var project: String
                var connections: UInt64
                var fanoutsInProgress: Int
                var fanoutsDeferred: Int
                var share: Double
            }
            var connections: UInt64
            var projects: [Project]
        }
        let status = try JSONDecoder().decode(
            Status.self, from: Data(try desk.run("top", "--json").out.utf8))
        // The administrator is the 91st.
        #expect(status.connections == 91)
        #expect(status.projects.map(\.connections) == [90])
        #expect(status.projects.map(\.fanoutsInProgress) == [1])
        #expect(status.projects.map(\.fanoutsDeferred) == [2])
        #expect(status.projects.map(\.share) == [1])
        // No terminal: once, whether it is said or not.
        for arguments in [["top", "--once"], ["top"]] {
            let top = desk.finish(try desk.start(arguments))
            #expect(top.status == 0 && top.out.contains("DEFERRED") && top.out.contains("tides"))
            #expect(!top.out.contains("\u{1B}"))
        }
        #expect(devices.count == 90)
    }
}
