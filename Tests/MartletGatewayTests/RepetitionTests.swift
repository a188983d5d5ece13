// SPDX-License-Identifier: Apache-2.0
//
// What a device gets of repeated requests, over HTTP and across a restart (GW-8). Rests on ServedGateway and TestFolder.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import Testing

extension OverHTTP {
    @Suite("Gateway: repetitions", .serialized, .timeLimit(.minutes(2)))
    struct RepetitionTests {
        private func request(_ served: ServedGateway, _ path: String, _ body: String) -> String {
            "POST \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(served.serverKey)\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }

        @Test(
            "GW-8 a request whose connection ended before its answer is sent once, and equal requests that are answered are sent each",
            arguments: ["/v1/projects/tides/messages:send", "/fcm/send"])
        func connections(path: String) async throws {
            try await ServedGateway.run { served in
                let isLegacy = path == "/fcm/send"
                for round in 1...50 {
                    let text =
                        isLegacy
                        ? #"{"to":"/topics/t","data":{"n":"\#(round)"}}"#
                        : #"{"message":{"topic":"t","data":{"n":"\#(round)"}}}"#
                    let request = request(served, path, text)
                    // Closed before the answer is read, and often before it is written.
                    do { try served.peer().write(request) }
                    let second = try served.peer()
                    second.write(request)
                    let answer = try second.answer()
                    #expect(answer.status == 200)
                    second.write(request)
                    let meant = try second.answer()
                    #expect(meant.status == 200)
                    func number(_ answer: HTTPPeer.Answer) -> String {
                        isLegacy
                            ? answer.json["message_id"]?.text ?? ""
                            : answer.json["name"]?.string?.split(separator: "/").last
                                .map(String.init) ?? ""
                    }
                    // Two messages a round, of which the first was asked for twice.
                    #expect(number(answer) == "\(2 * round - 1)", "round \(round)")
                    #expect(number(meant) == "\(2 * round)", "round \(round)")
                }
            }
        }

        @Test("GW-8 five equal requests at a time on connections of their own are five messages")
        func together() async throws {
            try await ServedGateway.run { served in
                let request = request(
                    served, "/v1/projects/tides/messages:send",
                    #"{"message":{"topic":"t","data":{"n":"1"}}}"#)
                let peers = try (0..<5).map { _ in try served.peer() }
                for peer in peers { peer.write(request) }
                let names = try peers.map { try $0.answer().json["name"]?.string ?? "" }
                #expect(Set(names) == Set((1...5).map { "projects/tides/messages/\($0)" }))
            }
        }
    }
}

@Suite("Gateway: repetitions after a restart", .timeLimit(.minutes(2)))
struct RestartTests {
    private static let body = #"{"message":{"token":"TOKEN","data":{"n":"1"}}}"#

    /// Sends through a gateway of its own, as a process does that lasts for one call.
    private func send(
        in folder: TestFolder, _ key: inout String, _ token: inout String, isWhole: Bool?
    ) async throws -> String {
        let broker = try await folder.open()
        if key.isEmpty {
            _ = try await broker.createProject("tides")
            key = try await broker.createServerKey(named: "test", in: "tides").text
            token = try await broker.register(app: "a.b", platform: .android, in: "tides").token
        }
        let name = try await {
            let gateway = Gateway(broker, GatewayConfiguration())
            var call = GatewayCall(
                .post, path: ["v1", "projects", "tides", "messages:send"],
                headers: [("authorization", "Bearer \(key)")],
                body: Array(Self.body.replacing("TOKEN", with: token).utf8))
            let delivery = AnswerDelivery()
            call.delivery = delivery
            let answer = await gateway.answer(call)
            if let isWhole { delivery.end(isWhole: isWhole) }
            #expect(answer.status == 200)
            return try JSONValue(parsing: String(decoding: answer.body, as: UTF8.self))["name"]?
                .string ?? ""
        }()
        try await broker.close()
        return name
    }

    @Test(
        "GW-8 what was accepted and not answered is not sent again by the next process, and what was answered is"
    )
    func restart() async throws {
        let folder = TestFolder()
        var (key, token) = ("", "")
        var numbers: [String] = []
        for isWhole in [nil, nil, true, true, false, true] as [Bool?] {
            numbers.append(try await send(in: folder, &key, &token, isWhole: isWhole))
        }
        let names = ["1", "1", "1", "2", "3", "3"].map { "projects/tides/messages/" + $0 }
        #expect(numbers == names)
    }
}
