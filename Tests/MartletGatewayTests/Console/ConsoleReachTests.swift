// SPDX-License-Identifier: Apache-2.0
//
// How many recipients are connected now, and how a connected device stands (GW-9). The devices have real connections to
// three loops. Rests on ConsoleWorld and MartletClient.

import Foundation
import Martlet
import MartletAnswers
import MartletClient
import MartletGateway
import Testing

import MartletConsole

@Suite("Console: connected devices")
struct ConsoleReachTests {
    /// A device of the model: every second has `rain`, every third has `wind`, and every fourth is away.
    private struct Planned {
        let number: Int
        var hasRain: Bool { number % 2 == 0 }
        var hasWind: Bool { number % 3 == 0 }
        var isConnected: Bool { number % 4 != 1 }
        var isWeb: Bool { number % 5 == 0 }
    }

    private static let planned = (0..<24).map { Planned(number: $0) }

    /// The numbers that the console tells of a target, by a check of a message.
    private func reach(
        _ kind: String, _ text: String, _ more: String = "", of world: ConsoleWorld,
        as browser: ConsoleWorld.Browser
    ) async throws -> [JSONValue?] {
        let body = """
            {"target": {"kind": "\(kind)", "text": "\(text)"}, "message": {"data": {"a": "b"}}, \
            "validateOnly": true\(more)}
            """
        let answer = try world.json(
            await world.call(.post, "projects/tides/messages", body: body, as: browser))
        return [answer["recipients"], answer["connected"]]
    }

    private func numbers(_ isSelected: (Planned) -> Bool) -> [JSONValue?] {
        let selected = Self.planned.filter(isSelected)
        return [
            .integer(Int64(selected.count)), .integer(Int64(selected.count { $0.isConnected })),
        ]
    }

    @Test(
        "GW-9 a target's recipients and those that are connected are counted exactly, of any kind")
    func connected() async throws {
        try await ConsoleWorld.with(configured: { $0.loopCount = 3 }) { world in
            let browser = try await world.signedIn(.sender)
            var tokens: [String] = []
            var open: [MartletDevice] = []
            for one in Self.planned {
                let device = try await world.newDevice(
                    one.isWeb ? .web : .android,
                    app: one.isWeb ? "com.example.web" : "com.example.tides")
                tokens.append(device.token)
                guard one.isConnected else { continue }
                open.append(device.connect())
                try await open.last?.connect()
            }
            for (topic, isIn) in [("rain", \Planned.hasRain), ("wind", \Planned.hasWind)] {
                let members = Self.planned.filter { $0[keyPath: isIn] }.map { tokens[$0.number] }
                _ = try await world.broker.subscribe(members, to: topic, in: "tides")
            }
            let condition = "condition='rain'+in+topics+%26%26+!('wind'+in+topics)"
            let audience = try world.json(
                await world.call(.get, "projects/tides/audience?" + condition, as: browser))
            #expect(
                [audience["total"], audience["connected"]]
                    == numbers { $0.hasRain && !$0.hasWind })
            #expect(
                try await reach("topic", "wind", of: world, as: browser) == numbers { $0.hasWind })
            #expect(
                try await reach("app", "com.example.web", of: world, as: browser)
                    == numbers { $0.isWeb })
            #expect(
                try await reach("everyone", "", of: world, as: browser) == numbers { _ in true })
            #expect(
                try await reach("token", tokens[1], of: world, as: browser)
                    == [.integer(1), .integer(0)])
            #expect(
                try await reach("token", tokens[2], of: world, as: browser)
                    == [.integer(1), .integer(1)])
            let group = try await world.broker.createGroup(
                named: "few", tokens: Array(tokens[0..<6]), in: "tides")
            #expect(
                try await reach("group", group.key, of: world, as: browser)
                    == numbers { $0.number < 6 })
            let earlier = try await world.broker.send(
                OutgoingMessage(to: .topic("rain"), Message(data: ["a": "b"])), in: "tides")
            let missing = #", "notReceived": "\#(try #require(earlier.messageID))""#
            // Nobody has acknowledged the message.
            #expect(
                try await reach("topic", "wind", missing, of: world, as: browser)
                    == numbers { $0.hasRain && $0.hasWind })
            for device in open { await device.close() }
            while try await reach("everyone", "", of: world, as: browser)
                != [.integer(24), .integer(0)]
            {
                try await Task.sleep(for: .milliseconds(10))
            }
        }
    }

    @Test("GW-9 a device that moves between loops is counted once at any moment")
    func moving() async throws {
        try await ConsoleWorld.with(configured: { $0.loopCount = 3 }) { world in
            let browser = try await world.signedIn(.viewer)
            let device = try await world.newDevice()
            _ = try await world.broker.subscribe([device.token], to: "rain", in: "tides")
            var former: MartletDevice?
            for _ in 0..<40 {
                let next = device.connect()
                try await next.connect()
                let answer = try world.json(
                    await world.call(
                        .get, "projects/tides/audience?condition='rain'+in+topics", as: browser))
                #expect(answer["connected"] == .integer(1))
                let looked = try world.json(
                    await world.call(.get, "projects/tides/devices/\(device.token)", as: browser))
                #expect(looked["connection"] != nil)
                await former?.close()
                former = next
            }
            await former?.close()
        }
    }

    @Test("GW-9 a broker that is closed refuses the question")
    func closed() async throws {
        let folder = TestFolder()
        let broker = try await folder.open()
        _ = try await broker.createProject("tides")
        try await broker.close()
        await #expect(throws: MartletError.self) {
            try await broker.reach(ofCondition: "'rain' in topics", in: "tides")
        }
    }

    // MARK: One device

    private struct Looked {
        var connection: JSONValue?
        var reasons: [String?]
        var limits: [String: [JSONValue?]] = [:]

        init(_ value: JSONValue) {
            connection = value["connection"]
            reasons = []
            if case .array(let waiting)? = value["waiting"] {
                reasons = waiting.map { $0["why"]?.string }
            }
            guard case .array(let all)? = value["limits"] else { return }
            for limit in all {
                limits[limit["limit"]?.string ?? ""] = [limit["left"], limit["of"]]
            }
        }
    }

    @Test(
        "GW-9 a device's page tells where it is connected from, its state, why messages wait, and the limits left"
    )
    func device() async throws {
        var limits = BrokerLimits.none
        limits.deviceMessagesPerMinute = 9
        limits.deviceUpstreamPerMinute = 7
        limits.collapsibleBurst = 2
        limits.collapsibleRefillSeconds = 180
        try await ConsoleWorld.with(configured: {
            $0.loopCount = 2
            $0.limits = limits
        }) { world in
            let browser = try await world.signedIn(.viewer)
            let known = try await world.newDevice(state: .doze)
            func look() async throws -> Looked {
                Looked(
                    try world.json(
                        await world.call(
                            .get, "projects/tides/devices/\(known.token)", as: browser)))
            }
            func send(_ collapseKey: String? = nil, high: Bool = false) async throws {
                var message = OutgoingMessage(
                    to: .token(known.token), Message(data: ["wind": "10"]))
                message.collapseKey = collapseKey
                message.priority = high ? .high : .normal
                _ = try await world.broker.send(message, in: "tides")
            }
            try await send()
            let away = try await look()
            #expect(away.connection == nil)
            #expect(away.reasons == ["notConnected"])
            #expect(away.limits["messagesPerMinute"] == [.integer(8), .integer(9)])
            #expect(away.limits["messagesPerHour"] == nil)
            #expect(away.limits["upstreamPerMinute"] == [.integer(7), .integer(7)])
            #expect(away.limits["collapsible"] == [.integer(2), .integer(2)])

            let device = known.connect()
            try await device.connect()
            let dozing = try await look()
            #expect(dozing.connection?["address"] == .string("127.0.0.1"))
            #expect(dozing.connection?["state"] == .string("doze"))
            #expect(dozing.reasons == ["dozing"])
            guard case .integer(let since)? = dozing.connection?["since"] else {
                return #expect(Bool(false), "the page tells since when the device is connected")
            }
            #expect(since <= world.broker.now.millisecondsSince1970)

            await device.report(.background)
            var seen = try await look()
            while seen.connection?["state"] != .string("background")
                || seen.reasons != ["notAcknowledged"]
            {
                try await Task.sleep(for: .milliseconds(10))
                seen = try await look()
            }
            for key in ["a", "b", "c"] { try await send(key, high: true) }
            while seen.reasons
                != ["notAcknowledged", "notAcknowledged", "notAcknowledged", "throttled"]
            {
                try await Task.sleep(for: .milliseconds(10))
                seen = try await look()
            }
            #expect(seen.limits["collapsible"] == [.integer(0), .integer(2)])
            #expect(seen.limits["messagesPerMinute"] == [.integer(5), .integer(9)])
            await device.close()
        }
    }
}
