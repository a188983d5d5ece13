// SPDX-License-Identifier: Apache-2.0
//
// Each error code raises the Admin SDK's own exception, and the SDK retries as often as its rules say (GW-6, GW-8). Rests on
// SDKWorld.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import Testing

@Suite(
    "Gateway: what the Admin SDK throws", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: PythonClients.areInstalled, "make python-sdks has not been run"))
struct AdminSDKErrorTests {
    private func refused(_ token: String, _ sdk: SDKWorld) async throws -> String? {
        let answer = try await sdk.admin(
            "refused", .object(["token": .string(token), "data": .object(["k": .string("v")])]))
        return answer["class"]?.string
    }

    @Test("GW-6 a token that is none, that is gone, that is another project's")
    func tokens() async throws {
        try await SDKWorld.run { sdk in
            sdk.faults.answer(with: nil)
            #expect(try await refused("no-token", sdk) == "InvalidArgumentError")
            let gone = try await sdk.world.newToken()
            try await sdk.broker.unregister(gone, in: GatewayWorld.project)
            #expect(try await refused(gone, sdk) == "UnregisteredError")
            _ = try await sdk.broker.createProject("moors")
            let foreign = try await sdk.broker.register(
                app: "com.example.moors", platform: .android, in: "moors")
            #expect(try await refused(foreign.token, sdk) == "SenderIdMismatchError")
            // None of them is repeated.
            #expect(sdk.faults.sendCount == 3)
        }
    }

    @Test("GW-6 QUO-1 a quota: Retry-After is the bucket's, and the SDK comes back after it")
    func quota() async throws {
        // The clock stands, so the bucket is empty for good; and it is today's, for the SDK signs with it.
        let now = Instant(millisecondsSince1970: Int64(Date.now.timeIntervalSince1970) * 1000)
        try await SDKWorld.run {
            $0.limits.deviceMessagesPerMinute = 60
            $0.clock = { now }
        } _: { sdk in
            let token = try await sdk.world.newToken()
            for number in 0..<60 {
                _ = try await sdk.broker.send(
                    OutgoingMessage(to: .token(token), Message(data: ["n": "\(number)"])),
                    in: GatewayWorld.project)
            }
            sdk.faults.answer(with: nil)
            #expect(try await refused(token, sdk) == "QuotaExceededError")
            #expect(sdk.faults.sendCount == 5)
        }
    }

    @Test(
        "GW-6 what only a gateway in trouble answers, and how often the SDK tries",
        arguments: [
            (
                GatewayError(
                    .unavailable, "later", code: .unavailable, retryDelayMilliseconds: 1000),
                "UnavailableError", 5
            ),
            (
                GatewayError(.internal, "Internal error encountered.", code: .internal),
                "InternalError", 5
            ),
            (
                GatewayError(
                    .unauthenticated, "Apple refuses the key.", code: .thirdPartyAuthError),
                "ThirdPartyAuthError", 3
            ),
            (
                GatewayError(.resourceExhausted, "enough", code: .quotaExceeded),
                "QuotaExceededError", 1
            ),
        ])
    func injected(_ error: GatewayError, _ name: String, _ sendCount: Int) async throws {
        try await SDKWorld.run { sdk in
            sdk.faults.answer(with: error)
            let token = try await sdk.world.newToken()
            #expect(try await refused(token, sdk) == name)
            #expect(sdk.faults.sendCount == sendCount)
        }
    }

    @Test("GW-5 GW-6 a service account that was revoked")
    func revoked() async throws {
        try await SDKWorld.run { sdk in
            let accounts = try await sdk.broker.serviceAccounts(in: GatewayWorld.project)
            try await sdk.broker.revokeServiceAccount(
                try #require(accounts.first).keyID, in: GatewayWorld.project)
            let token = try await sdk.world.newToken()
            await #expect(throws: PythonClients.Failure.self) { try await refused(token, sdk) }
        }
    }
}

@Suite(
    "Gateway: google-api-python-client", .timeLimit(.minutes(5)),
    .enabled(if: PythonClients.areInstalled, "make python-sdks has not been run"))
struct DiscoveryClientTests {
    @Test(
        "GW-1 GW-2 GW-7 it sends, subscribes, lists and unsubscribes a registration, and reads delivery data"
    )
    func walk() async throws {
        try await SDKWorld.run { sdk in
            let device = try await sdk.world.newDevice()
            let token = device.credentials.token
            let printed = try await PythonClients.run([
                PythonClients.script("discovery_client.py"), sdk.url, sdk.credentials, token,
                "com.example.tides",
            ])
            let answers = try json(printed.trimmingCharacters(in: .newlines))
            #expect(answers["dry"]?.string?.hasPrefix("projects/tides/messages/") == true)
            var messages = device.messages.makeAsyncIterator()
            let message = try #require(try await messages.next())
            #expect(message["n"] == "sent" && message.messageID == answers["sent"]?.string)
            #expect(message.options == [.init(key: "direct_boot_ok", value: "true")])
            await device.close()
            #expect(answers["unknown"]?["status"] == .integer(400))
            #expect(answers["unknown"]?["reason"]?.string?.contains("Unknown name") == true)

            let name = "projects/tides/registrations/\(token)/topicSubscriptions"
            let news = try json(#"{"name":"\#(name)/news","topicName":"news"}"#)
            #expect(answers["created"] == news && answers["got"] == news)
            #expect(answers["again"]?["status"] == .integer(409))
            #expect(answers["patched"]?["topicName"] == .string("tea"))
            #expect(answers["listed"] == .array([.string("news"), .string("tea")]))
            #expect(answers["deleted"] == .object([:]))
            #expect(answers["missing"]?["status"] == .integer(404))

            guard case .array(let days)? = answers["data"] else {
                Issue.record("there is no delivery data")
                return
            }
            #expect(days.map { $0["data"]?["countMessagesAccepted"] } == [.string("1")])
            #expect(days.map { $0["appId"] } == [.string("com.example.tides")])
            #expect(answers["app"]?["status"] == .integer(404))
        }
    }
}
