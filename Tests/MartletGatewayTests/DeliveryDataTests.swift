// SPDX-License-Identifier: Apache-2.0
//
// Delivery data over HTTP, exact and in FCM's names: from real devices, day by day and in pages (GW-7). Rests on SDKWorld and
// HTTPPeer.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import Testing

@Suite("Gateway: delivery data", .timeLimit(.minutes(3)))
struct DeliveryDataTests {
    private static let app = "com.example.tides"
    private static let path = "/v1beta1/projects/tides/androidApps/\(app)/deliveryData"

    private func get(
        _ target: String, _ sdk: SDKWorld, authorization: String? = nil
    ) async throws -> HTTPPeer.Answer {
        try await request(
            "GET", target, sdk, authorization ?? "Bearer \(sdk.world.serverKey)")
    }

    private func request(
        _ method: String, _ target: String, _ sdk: SDKWorld, _ authorization: String
    ) async throws -> HTTPPeer.Answer {
        let port = try #require(sdk.url.split(separator: ":").last.flatMap { UInt16($0) })
        return try await withCheckedThrowingContinuation { continuation in
            // Waiting blocks, and the gateway that is called runs in tasks of this process.
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        let peer = try HTTPPeer(port: port)
                        peer.request(
                            method, target, headers: [("Authorization", authorization)])
                        return try peer.answer()
                    })
            }
        }
    }

    private func days(_ answer: HTTPPeer.Answer) -> [JSONValue] {
        guard case .array(let days)? = answer.json["androidDeliveryData"] else { return [] }
        return days
    }

    @Test("GW-7 devices that took it, are away, were skipped, left: percentages and exact counts")
    func outcomes() async throws {
        let clock = TestClock()
        try await SDKWorld.run {
            $0.clock = { clock.instant }
            $0.limits.deviceMessagesPerMinute = 2
        } _: { sdk in
            let (broker, project) = (sdk.broker, GatewayWorld.project)
            let devices = [
                try await sdk.world.newDevice(), try await sdk.world.newDevice(),
                // The same name on another platform is another app.
                try await sdk.world.newDevice(.apple),
            ]
            for device in devices {
                var messages = device.messages.makeAsyncIterator()
                for n in ["1", "2"] {
                    _ = try await broker.send(
                        OutgoingMessage(
                            to: .token(device.credentials.token), Message(data: ["n": n])),
                        in: project)
                    await device.acknowledge(try #require(try await messages.next()))
                }
            }
            let away = try await sdk.world.newToken()
            _ = try await broker.subscribe(
                [devices[0].credentials.token, away], to: "storm", in: project)
            let storm = try await broker.send(
                OutgoingMessage(to: .topic("storm"), Message()), in: project)
            #expect(storm.recipientCount == 1 && storm.rateLimitedCount == 1)
            _ = try await broker.send(
                OutgoingMessage(
                    to: .token(try await sdk.world.newToken()), Message(), timeToLiveSeconds: 0),
                in: project)
            let leaving = try await sdk.world.newToken()
            _ = try await broker.send(
                OutgoingMessage(to: .token(leaving), Message()), in: project)
            try await broker.unregister(leaving, in: project)
            let mistake = try await broker.send(
                OutgoingMessage(to: .token(try await sdk.world.newToken()), Message()),
                in: project)
            try await broker.cancel(try #require(mistake.messageID), in: project)

            let expected = try json(
                """
                {"appId":"com.example.tides","date":{"year":2027,"month":1,"day":15},
                "data":{"countMessagesAccepted":"8","messageOutcomePercents":{
                "delivered":50.0,"pending":12.5,"collapsed":0.0,"droppedTtlExpired":0.0,
                "droppedTooManyPendingMessages":0.0,"droppedDeviceInactive":0.0},
                "martletCounts":{"targeted":"9","pending":"1","sent":"4","displayed":"0",
                "opened":"0","acknowledged":"4","collapsed":"0","expired":"0","rateLimited":"1",
                "discardedTooMany":"0","discardedInactive":"0","unregistered":"1",
                "cancelled":"1","nowOrNever":"1","handedOver":"0","refused":"0"}}}
                """)
            var answer = try await get(Self.path, sdk)
            // What connections tell is counted a moment later; the clock of tests stands still.
            while days(answer) != [expected], !Task.isCancelled {
                try await Task.sleep(for: .milliseconds(50))
                answer = try await get(Self.path, sdk)
            }
            #expect(answer.status == 200 && answer.json["nextPageToken"] == nil)
            #expect(answer.json["androidDeliveryData"] == .array([expected]))
            #expect(try await get("\(Self.path)?alt=json&pageSize=0", sdk).json == answer.json)
            let byNumber = Self.path.replacing("/tides/", with: "/\(sdk.world.senderID)/")
            #expect(try await get(byNumber, sdk).json == answer.json)
            for device in devices { await device.close() }
        }
    }

    @Test("GW-7 every count stands under its own name, and percentages are of what was accepted")
    func names() throws {
        var counts = DeliveryCounts()
        (counts.sent, counts.displayed, counts.opened) = (1001, 1002, 1003)
        (counts.acknowledged, counts.collapsed, counts.expired) = (1, 2, 4)
        (counts.discardedTooMany, counts.discardedInactive) = (8, 16)
        (counts.unregistered, counts.cancelled, counts.nowOrNever) = (32, 64, 128)
        counts.rateLimited = 256
        // So 145 are pending, and 400 were accepted.
        counts.targeted = 656
        #expect(
            DeliveryData.data(counts)
                == (try json(
                    """
                    {"countMessagesAccepted":"400","messageOutcomePercents":{
                    "delivered":0.25,"pending":36.25,"collapsed":0.5,"droppedTtlExpired":1.0,
                    "droppedTooManyPendingMessages":2.0,"droppedDeviceInactive":4.0},
                    "martletCounts":{"targeted":"656","pending":"145","sent":"1001",
                    "displayed":"1002","opened":"1003","acknowledged":"1","collapsed":"2",
                    "expired":"4","rateLimited":"256","discardedTooMany":"8",
                    "discardedInactive":"16","unregistered":"32","cancelled":"64",
                    "nowOrNever":"128","handedOver":"0","refused":"0"}}
                    """)))
        var skipped = DeliveryCounts()
        (skipped.targeted, skipped.rateLimited) = (3, 3)
        #expect(DeliveryData.data(skipped)["countMessagesAccepted"] == .string("0"))
        #expect(DeliveryData.data(skipped)["messageOutcomePercents"] == nil)
    }

    @Test("GW-7 one entry a day, the oldest first, in pages of any size; other apps have their own")
    func pages() async throws {
        let clock = TestClock()
        try await SDKWorld.run {
            $0.clock = { clock.instant }
        } _: { sdk in
            let other = "com.example.moors"
            let tokens = [
                try await sdk.world.newToken(), try await sdk.world.newToken(app: other),
                try await sdk.world.newToken(.web),
            ]
            _ = try await sdk.broker.subscribe(tokens, to: "storm", in: GatewayWorld.project)
            // There is a day without messages after the first, and the last is in another month. All
            // of it within the time to live, or pending ones would expire while they are read.
            for (count, daysLater) in [(1, 0), (2, 2), (3, 15)] {
                clock.advance(seconds: Int64(daysLater) * 86_400)
                for _ in 0..<count {
                    _ = try await sdk.broker.send(
                        OutgoingMessage(to: .topic("storm"), Message()),
                        in: GatewayWorld.project)
                }
            }
            let all = days(try await get(Self.path, sdk))
            let dates = [
                try json(#"{"year":2027,"month":1,"day":15}"#),
                try json(#"{"year":2027,"month":1,"day":17}"#),
                try json(#"{"year":2027,"month":2,"day":1}"#),
            ]
            #expect(all.map { $0["date"] } == dates)
            #expect(
                all.map { $0["data"]?["countMessagesAccepted"]?.string } == ["1", "2", "3"])
            let others = days(
                try await get(Self.path.replacing(Self.app, with: other), sdk))
            #expect(others.map { $0["data"] } == all.map { $0["data"] })
            #expect(others.allSatisfy { $0["appId"] == .string(other) })
            for (size, expected) in [(1, 3), (2, 2), (3, 1), (20_000, 1)] {
                var (seen, count, next): ([JSONValue], Int, String?) = ([], 0, "")
                while let token = next {
                    let answer = try await get(
                        "\(Self.path)?pageSize=\(size)&pageToken=\(token)", sdk)
                    seen += days(answer)
                    count += 1
                    next = answer.json["nextPageToken"]?.string
                }
                #expect(seen == all && count == expected, "\(size)")
            }
        }
    }

    @Test("GW-7 what is not there or malformed is refused in the envelope of v1, by its field")
    func refusals() async throws {
        try await SDKWorld.run { sdk in
            _ = try await sdk.world.newToken()
            _ = try await sdk.world.newToken(.apple, app: "com.example.apple")
            _ = try await sdk.broker.createProject("other")
            // An app whose messages nobody counted yet has no days.
            #expect(try await get(Self.path, sdk).json == .object([:]))
            for app in ["com.example.apple", "com.example.unknown", "1:2:android:3"] {
                let answer = try await get(Self.path.replacing(Self.app, with: app), sdk)
                #expect(answer.status == 404, "\(app)")
                #expect(answer.json["error"]?["status"] == .string("NOT_FOUND"))
            }
            for (query, field) in [
                ("pageSize=-1", "page_size"), ("pageSize=x", "page_size"),
                ("page_size=1.5", "page_size"), ("pageToken=*", "page_token"),
                // "storm", "-1", "4294967296"
                ("pageToken=c3Rvcm0", "page_token"), ("pageToken=LTE", "page_token"),
                ("page_token=NDI5NDk2NzI5Ng", "page_token"),
            ] {
                let answer = try await get("\(Self.path)?\(query)", sdk)
                #expect(answer.status == 400, "\(query)")
                #expect(answer.json["error"]?["status"] == .string("INVALID_ARGUMENT"))
                #expect(answer.body.contains("\"field\":\"\(field)\""), "\(query)")
            }
            let foreign = try await get(Self.path.replacing("/tides/", with: "/other/"), sdk)
            #expect(foreign.status == 403)
            #expect(foreign.json["error"]?["status"] == .string("PERMISSION_DENIED"))
            for header in ["Bearer x", "key=\(sdk.world.serverKey)"] {
                let answer = try await get(Self.path, sdk, authorization: header)
                #expect(answer.status == 401)
                #expect(answer.json["error"]?["status"] == .string("UNAUTHENTICATED"))
            }
            #expect(try await request("POST", Self.path, sdk, "").status == 405)
        }
    }
}
