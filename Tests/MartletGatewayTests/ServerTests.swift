// SPDX-License-Identifier: Apache-2.0
//
// HTTP itself: connections that last, bodies and heads that are too long, peers that are too slow, a
// gateway that is full, and its end. Rests on MartletGateway.

import Foundation
import Logging
import Martlet
import MartletClient
import MartletGateway
import ServiceLifecycle
import Testing

extension OverHTTP {
    @Suite("Gateway: HTTP", .serialized)
    struct ServerTests {
        private static let send = "/v1/projects/tides/messages:send"

        private func bearer(_ served: ServedGateway) -> [(String, String)] {
            [("Authorization", "Bearer \(served.serverKey)"), ("Content-Type", "application/json")]
        }

        private func message(to token: String, _ text: String) -> String {
            #"{"message":{"token":"\#(token)","notification":{"title":"\#(text)"},"data":{"k":"v"}}}"#
        }

        @Test("GW-1 what was sent over HTTP is what the device gets")
        func delivery() async throws {
            try await ServedGateway.run { served in
                let device = try await served.newDevice()
                try await device.connect()
                let peer = try served.peer()
                peer.request(
                    "POST", Self.send + "?alt=json&key=ignored", headers: bearer(served),
                    message(to: device.credentials.token, "Flut — 潮"))
                let answer = try peer.answer()
                #expect(answer.status == 200)
                #expect(answer.headers["content-type"] == "application/json; charset=UTF-8")
                var messages = device.messages.makeAsyncIterator()
                let message = try #require(try await messages.next())
                #expect(answer.json["name"] == .string(message.messageID))
                #expect(message.notification?.title == "Flut — 潮")
                #expect(message.data == [.init(key: "k", value: "v")])
                await device.close()
            }
        }

        @Test("GW-1 the path names the project by its ID or its sender ID, and no other project")
        func projects() async throws {
            try await ServedGateway.run { served in
                _ = try await served.broker.createProject("other")
                let sender = try served.broker.project(ServedGateway.project).senderID
                let body = #"{"message":{"topic":"t","data":{"a":"b"}}}"#
                let peer = try served.peer()
                for (project, status) in [("tides", 200), ("\(sender)", 200), ("other", 403)] {
                    peer.request(
                        "POST", "/v1/projects/\(project)/messages:send", headers: bearer(served),
                        body)
                    #expect(try peer.answer().status == status, "\(project)")
                }
            }
        }

        @Test("GW-1 validate_only sends nothing")
        func validation() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "POST", Self.send, headers: bearer(served),
                    #"{"message":{"topic":"t","data":{"a":"b"}},"validate_only":true}"#)
                #expect(try peer.answer().status == 200)
                peer.request(
                    "POST", Self.send, headers: bearer(served),
                    #"{"message":{"topic":"t","data":{"a":"b"}}}"#)
                #expect(try peer.answer().json["name"] == .string("projects/tides/messages/1"))
            }
        }

        @Test("GW-1 a connection takes one request after the other, also before they are answered")
        func keepAlive() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                for _ in 0..<3 { peer.request("GET", "/healthz") }
                for _ in 0..<3 { #expect(try peer.answer().body == "ok\n") }
                peer.request("HEAD", "/healthz")
                let head = try peer.answer(isHeadOnly: true)
                #expect(head.status == 200 && head.headers["content-length"] == "3")
                peer.request("HEAD", Self.send)
                #expect(try peer.answer(isHeadOnly: true).status == 405)
                peer.request("GET", "/nothing")
                let missing = try peer.answer()
                #expect(missing.status == 404)
                #expect(missing.json["error"]?["status"] == .string("NOT_FOUND"))
                peer.request("GET", Self.send)
                let wrong = try peer.answer()
                #expect(wrong.status == 405)
                #expect(wrong.headers["allow"] == "POST")
                peer.request("GET", "/healthz", headers: [("Connection", "close")])
                #expect(try peer.answer().status == 200)
                try peer.end()
            }
        }

        @Test("OPS-5 requests behind an unanswered one wait, and all are answered in their order")
        func pipelined() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let body = String(repeating: "m", count: 1500)
                for number in 0..<60 {
                    if number % 3 == 0 {
                        peer.request("POST", Self.send, headers: bearer(served), body)
                    } else {
                        peer.request(
                            "GET", number % 3 == 1 ? "/healthz" : "/nothing",
                            headers: [("X-Long", String(repeating: "x", count: 200))])
                    }
                }
                for number in 0..<60 {
                    let status = try peer.answer().status
                    #expect(status == [400, 200, 404][number % 3], "\(number)")
                }
            }
        }

        @Test(
            "OPS-5 requests that are written at once without a wait for answers are all answered",
            arguments: [40, 400])
        func shortRequests(count: Int) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let paths = ["/healthz", "/x"]
                peer.write(
                    (0..<count).map { "GET \(paths[$0 % 2]) HTTP/1.1\r\nhost: x\r\n\r\n" }.joined())
                for number in 0..<count {
                    #expect(try peer.answer().status == [200, 404][number % 2], "\(number)")
                }
            }
        }

        @Test("OPS-5 a body that is too long is refused in the envelope, however it comes")
        func longBodies() async throws {
            try await ServedGateway.run({ $0.bodyBytesMax = 1000 }) { served in
                let long = String(repeating: "x", count: 2000)
                let declared = try served.peer()
                declared.request("POST", Self.send, headers: bearer(served), long)
                let chunked = try served.peer()
                let credential = bearer(served).map { "\($0.0): \($0.1)\r\n" }.joined()
                chunked.write(
                    "POST \(Self.send) HTTP/1.1\r\nHost: h\r\n\(credential)"
                        + "Transfer-Encoding: chunked\r\n\r\n7D0\r\n\(long)\r\n0\r\n\r\n")
                for peer in [declared, chunked] {
                    let answer = try peer.answer()
                    #expect(answer.status == 413)
                    #expect(answer.json["error"]?["code"] == .integer(413))
                    #expect(answer.json["error"]?["status"] == .string("INVALID_ARGUMENT"))
                    try peer.end()
                }
            }
        }

        @Test("GW-1 a request for one message that is too long is refused before it is parsed")
        func longMessage() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                for (count, isTooLong) in [
                    (Limits.httpMessageBytesMax, false), (Limits.httpMessageBytesMax + 1, true),
                ] {
                    // It is no JSON.
                    peer.request(
                        "POST", Self.send, headers: bearer(served),
                        String(repeating: "x", count: count))
                    let answer = try peer.answer()
                    #expect(answer.status == 400)
                    #expect(answer.body.contains("at most") == isTooLong)
                }
            }
        }

        @Test(
            "GW-15 a client that sends the whole of a refused body sees the answer",
            arguments: [128, 6400], [true, false])
        func refusedUploads(kibibytes: Int, isDeclared: Bool) async throws {
            try await ServedGateway.run { served in
                let piece = String(repeating: "x", count: 65_536)
                let count = kibibytes / 64
                let framing =
                    isDeclared
                    ? "Content-Length: \(count * piece.utf8.count)" : "Transfer-Encoding: chunked"
                for _ in 0..<3 {
                    let peer = try served.peer()
                    peer.write("POST /token HTTP/1.1\r\nHost: h\r\n\(framing)\r\n\r\n")
                    for _ in 0..<count {
                        #expect(peer.write(isDeclared ? piece : "10000\r\n\(piece)\r\n"))
                    }
                    if !isDeclared { #expect(peer.write("0\r\n\r\n")) }
                    let answer = try peer.answer()
                    #expect(answer.status == 413)
                    #expect(answer.headers["connection"] == "close")
                    try peer.end()
                }
            }
        }

        @Test("GW-15 a refused body without end is not read without end")
        func endlessUpload() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.write("POST /token HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
                let piece = "10000\r\n" + String(repeating: "x", count: 65_536) + "\r\n"
                // 8 MiB are passed over, and buffers of the system take some more.
                var count = 0
                while count < 1024, peer.write(piece) { count += 1 }
                #expect(count < 1024)
            }
        }

        @Test(
            "GW-1 the last answer of a connection says so, and no other answer does",
            arguments: [
                ("1.1", "", false), ("1.1", "Connection: keep-alive\r\n", false),
                ("1.1", "Connection: close\r\n", true), ("1.1", "Connection: TE, Close\r\n", true),
                ("1.1", "Connection: CLOSE\r\n", true), ("1.1", "connection:close ,TE\r\n", true),
                ("1.1", "Connection: TE\r\nConnection: Close\r\n", true),
                ("1.0", "", true), ("1.0", "Connection: keep-alive\r\n", false),
            ])
        func lastAnswer(version: String, header: String, isLast: Bool) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                for body in ["", "{}"] {
                    let method = body.isEmpty ? "GET /healthz" : "POST /nothing"
                    peer.write(
                        "\(method) HTTP/\(version)\r\nHost: h\r\n\(header)"
                            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
                    let answer = try peer.answer()
                    #expect(answer.headers["connection"] == (isLast ? "close" : nil))
                    if isLast { break }
                }
                if isLast { try peer.end() }
            }
        }

        @Test("OPS-5 a head that is too long ends the connection")
        func longHead() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "GET", "/healthz",
                    headers: [
                        ("X-Long", String(repeating: "x", count: Limits.httpHeadBytesMax + 1))
                    ])
                try peer.end()
            }
        }

        @Test("OPS-5 who sends a request too slowly is disconnected")
        func slowRequests() async throws {
            try await ServedGateway.run({
                $0.requestSeconds = 1
                $0.idleSeconds = 2
            }) { served in
                let silent = try served.peer()
                let slowHead = try served.peer()
                slowHead.write("POST \(Self.send) HT")
                let slowBody = try served.peer()
                slowBody.write(
                    "POST \(Self.send) HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
                let slowExtension = try served.peer()
                slowExtension.write(
                    "POST /token HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x")
                for peer in [slowHead, slowBody, slowExtension] {
                    let answer = try peer.answer()
                    #expect(answer.status == 408)
                    #expect(answer.headers["connection"] == "close")
                }
                for peer in [silent, slowHead, slowBody, slowExtension] { try peer.end() }
                let other = try served.peer()
                other.request("GET", "/healthz")
                #expect(try other.answer().status == 200)
            }
        }

        @Test(
            "OPS-5 a head that comes slowly has a request's time, on a new connection or a later request",
            arguments: [("GET /healthz HTTP/1.1\r\nX-Slow: ", "x"), ("", "\r\n")])
        func slowHeads(beginning: String, piece: String) async throws {
            try await ServedGateway.run({ $0.requestSeconds = 1 }) { served in
                for isLater in [false, true] {
                    let peer = try served.peer()
                    if isLater {
                        peer.request("GET", "/healthz")
                        #expect(try peer.answer().status == 200)
                        // An idle connection is not a slow request.
                        try await Task.sleep(for: .milliseconds(1500))
                        peer.request("GET", "/healthz")
                        #expect(try peer.answer().status == 200)
                    }
                    let began = ContinuousClock.now
                    peer.write(beginning)
                    // A peer that is disconnected notices by its second write at the latest.
                    while ContinuousClock.now - began < .seconds(15), peer.write(piece) {
                        try await Task.sleep(for: .milliseconds(100))
                    }
                    #expect(ContinuousClock.now - began < .seconds(15))
                }
            }
        }

        @Test("GW-8 a gateway that cannot keep unanswered sends for the next process says so")
        func unkept() async throws {
            let folder = TestFolder()
            // A folder in the place of the file.
            try FileManager.default.createDirectory(
                at: folder.url.appending(path: "gateway.unanswered"),
                withIntermediateDirectories: true)
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o700], ofItemAtPath: folder.url.path)
            let lines = LogLines()
            try await ServedGateway.run(in: folder, { $0.logger = lines.logger }) { _ in
                let told = lines.all.filter { $0.contains("will not be recognised") }
                #expect(told.count == 1 && told[0].contains("gateway.unanswered"), "\(lines.all)")
            }
            let quiet = LogLines()
            try await ServedGateway.run({ $0.logger = quiet.logger }) { _ in
                #expect(!quiet.all.contains { $0.contains("will not be recognised") })
            }
        }

        @Test("REG-10 refused credentials leave one line a second, without the credential")
        func refusedLogins() async throws {
            let lines = LogLines()
            try await ServedGateway.run({ $0.logger = lines.logger }) { served in
                let peer = try served.peer()
                let secret = "AAAA.\(String(repeating: "s", count: 43))"
                for number in 0..<20 {
                    let isKey = number % 2 == 0
                    peer.request(
                        "POST", isKey ? "/fcm/send" : Self.send,
                        headers: [("Authorization", (isKey ? "key=" : "Bearer ") + secret)], "{}")
                    #expect(try peer.answer().status == 401)
                }
                let told = lines.all.filter { $0.contains("a credential was refused") }
                #expect((1...3).contains(told.count), "\(told)")
                #expect(told.first?.contains("server key") == true)
                #expect(told.first?.contains("127.0.0.1") == true)
                #expect(!lines.all.joined().contains("ssss"))
            }
        }

        @Test("EMB-2 a gateway that is cancelled while many connect ends, and the process lives")
        func cancelledAmidConnects() async throws {
            try await TestFolder.withBroker { broker in
                for _ in 0..<20 {
                    var configuration = GatewayConfiguration()
                    configuration.address.port = 0
                    configuration.logger.logLevel = .critical
                    let server = try GatewayServer(Gateway(broker, configuration))
                    let running = Task { try await server.run() }
                    let port = try await server.port()
                    let peers = try (0..<100).map { _ in try HTTPPeer(port: port) }
                    running.cancel()
                    try? await running.value
                    for peer in peers { try peer.end() }
                }
            }
        }

        @Test("OPS-5 a full gateway says when to come back, and still how it is")
        func full() async throws {
            try await ServedGateway.run({ $0.requestsMax = 0 }) { served in
                let peer = try served.peer()
                peer.request("POST", Self.send, headers: bearer(served), "{}")
                let answer = try peer.answer()
                #expect(answer.status == 503)
                #expect(answer.headers["retry-after"] == "1")
                #expect(answer.json["error"]?["status"] == .string("UNAVAILABLE"))
                peer.request("GET", "/healthz")
                #expect(try peer.answer().status == 200)
            }
        }

        @Test("OPS-5 bodies together take no more memory than is allowed")
        func bodyMemory() async throws {
            try await ServedGateway.run({ $0.bodyMegabytesMax = 0 }) { served in
                let peer = try served.peer()
                peer.request("POST", Self.send, headers: bearer(served), "{}")
                let answer = try peer.answer()
                #expect(answer.status == 503)
                #expect(answer.headers["retry-after"] == "1")
            }
        }

        @Test("NET-5 a request that was begun is answered before the gateway and its broker end")
        func gracefulEnd() async throws {
            let folder = TestFolder()
            try await ServedGateway.run(in: folder) { served in
                let token = try await served.broker.register(
                    app: "com.example.tides", platform: .android, in: ServedGateway.project
                ).token
                let body = message(to: token, "last")
                let begun = try served.peer()
                // It is begun when it is asked to go on.
                begun.write(
                    "POST \(Self.send) HTTP/1.1\r\nHost: h\r\n"
                        + "Authorization: Bearer \(served.serverKey)\r\n"
                        + "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue\r\n\r\n")
                #expect(try begun.answer().status == 100)
                let idle = try served.peer()
                idle.request("GET", "/healthz")
                _ = try idle.answer()
                await served.services.triggerGracefulShutdown()
                try idle.end()
                begun.write(body)
                let last = try begun.answer()
                #expect(last.status == 200)
                #expect(last.headers["connection"] == "close")
                try begun.end()
            }
            let again = try await folder.open()
            #expect(try again.project(ServedGateway.project).instanceCount == 1)
            try await again.close()
        }

        @Test(
            "GW-5 plain HTTP is for this machine unless it is allowed",
            arguments: ["0.0.0.0", "::"])
        func plainElsewhere(host: String) async throws {
            try await TestFolder.withBroker { broker in
                var configuration = GatewayConfiguration()
                configuration.address = .init(host: host, port: 0)
                #expect {
                    try GatewayServer(Gateway(broker, configuration))
                } throws: {
                    ($0 as? MartletError)?.field == "http"
                }
                configuration.allowsPlainElsewhere = true
                _ = try GatewayServer(Gateway(broker, configuration))
                configuration.certificate = .init(chain: "/nowhere.pem", key: "/nowhere.pem")
                #expect {
                    try GatewayServer(Gateway(broker, configuration))
                } throws: {
                    ($0 as? MartletError)?.field == "http-certificate"
                }
            }
        }
    }
}
