// SPDX-License-Identifier: Apache-2.0
//
// What RFC 9110, 9112 and 6455 ask of every server. Rests on ServedGateway.

import Foundation
import Martlet
import MartletBase
import MartletGateway
import NIOCore
import Testing

/// Takes WebSockets at `/socket`, and says nothing on them.
struct SocketDoor: GatewayDoor {
    private final class Silent: ChannelInboundHandler {
        typealias InboundIn = Any

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
    }

    var routes: [Route] { [] }

    func webSocket(for call: GatewayCall) -> WebSocketOffer? {
        guard call.path == ["socket"] else { return nil }
        return WebSocketOffer(subprotocol: nil, messageBytesMax: 65_536) { _ in Silent() }
    }
}

extension OverHTTP {
    @Suite("Gateway: rules of HTTP", .serialized)
    struct HTTPRuleTests {
        private static let send = "/v1/projects/tides/messages:send"
        private static let body = #"{"message":{"topic":"t","data":{"a":"b"}}}"#

        private func head(_ served: ServedGateway, _ lines: String) -> String {
            "POST \(Self.send) HTTP/1.1\r\nAuthorization: Bearer \(served.serverKey)\r\n\(lines)\r\n"
        }

        @Test(
            "GW-1 a head that servers may read differently is refused, after the requests before it",
            arguments: [
                ("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: a\r\nhost: a\r\n", 400),
                ("Host: a b\r\n", 400), ("Host: a/b\r\n", 400), ("Host: u@a\r\n", 400),
                ("Host: [::1]:80\r\n", 200), ("Host:\r\n", 200), ("hOST: a.b-c_d:80\r\n", 200),
            ])
        func hosts(lines: String, status: Int) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let length = "Content-Length: \(Self.body.utf8.count)\r\n"
                peer.request("GET", "/healthz")
                peer.write(head(served, lines + length) + Self.body)
                peer.request("GET", "/healthz")
                let first = try peer.answer()
                #expect(first.status == 200 && first.headers["connection"] == nil)
                let answer = try peer.answer()
                #expect(answer.status == status)
                if status == 200 {
                    #expect(try peer.answer().status == 200)
                } else {
                    #expect(answer.headers["connection"] == "close")
                    #expect(answer.headers["date"] != nil)
                    #expect(throws: HTTPPeer.Failure.self) { try peer.answer() }
                }
            }
        }

        @Test("GW-1 a request with two credentials is refused, and the connection stays")
        func credentials() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let right = ("Authorization", "Bearer \(served.serverKey)")
                for (further, status) in [
                    ([right], 400), ([("authorization", "Bearer x")], 400), ([], 200),
                ] {
                    peer.request("POST", Self.send, headers: [right] + further, Self.body)
                    let answer = try peer.answer()
                    #expect(answer.status == status)
                    if status == 400 { #expect(answer.body.contains("Authorization")) }
                }
            }
        }

        @Test("GW-1 OPTIONS of the whole server names the methods that it takes")
        func wholeServer() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request("OPTIONS", "*")
                let answer = try peer.answer()
                #expect(answer.status == 200 && answer.headers["content-length"] == "0")
                let methods = Set(answer.headers["allow"]?.components(separatedBy: ", ") ?? [])
                #expect(methods.isSuperset(of: ["GET", "HEAD", "OPTIONS", "POST"]), "\(methods)")
                peer.request("GET", "*")
                #expect(try peer.answer().status == 400)
            }
        }

        @Test("GW-1 a request of HTTP/1.0 needs no Host")
        func formerVersion() async throws {
            try await ServedGateway.run { served in
                for (lines, status) in [("", 200), ("Host: a\r\nHost: b\r\n", 400)] {
                    let peer = try served.peer()
                    peer.write("GET /healthz HTTP/1.0\r\n\(lines)\r\n")
                    #expect(try peer.answer().status == status)
                    try peer.end()
                }
            }
        }

        @Test(
            "GW-1 a body in another coding than chunked is refused, and nothing of it is carried out",
            arguments: [
                ("gzip, chunked", 501), ("GZIP,chunked", 501), ("chunked, chunked", 400),
                ("gzip\r\nTransfer-Encoding: chunked", 501), ("chunked", 200), ("Chunked", 200),
                ("identity", 501), ("xchunked", 501),
            ])
        func codings(coding: String, status: Int) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let size = String(Self.body.utf8.count, radix: 16)
                peer.write(
                    head(served, "Host: h\r\nTransfer-Encoding: \(coding)\r\n")
                        + "\(size)\r\n\(Self.body)\r\n0\r\n\r\n")
                // The parser itself refuses some.
                #expect((try peer.answer().status == 200) == (status == 200))
                if status == 501 { #expect(throws: HTTPPeer.Failure.self) { try peer.answer() } }
            }
        }

        @Test("GW-1 each answer has the date, whoever made it")
        func dates() async throws {
            try await ServedGateway.run({ $0.requestSeconds = 1 }) { served in
                let peer = try served.peer()
                for (path, status) in [("/healthz", 200), ("/nothing", 404)] {
                    peer.request("GET", path)
                    let answer = try peer.answer()
                    #expect(answer.status == status)
                    #expect(answer.headers["date"]?.hasSuffix(" GMT") == true)
                }
                peer.write("NO SUCH REQUEST\r\n\r\n")
                let broken = try peer.answer()
                #expect(broken.status == 400 && broken.headers["date"] != nil)
                let slow = try served.peer()
                slow.write("GET /healthz HTTP/1.1\r\n")
                let late = try slow.answer()
                #expect(late.status == 408 && late.headers["date"] != nil)
            }
        }

        @Test(
            "GW-1 a date is written as HTTP wants it",
            arguments: [
                (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
                (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (-5, "Thu, 01 Jan 1970 00:00:00 GMT"),
                (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
                (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            ] as [(Int64, String)])
        func date(second: Int64, text: String) {
            #expect(HTTPDate.text(of: Instant(millisecondsSince1970: second * 1000 + 999)) == text)
        }

        @Test(
            "GW-1 405 names the methods that a path takes, whatever was asked",
            arguments: [
                ("TRACE", send, 405, "POST"), ("OPTIONS", send, 405, "POST"),
                ("PUT", "/healthz", 405, "GET, HEAD"), ("PROPFIND", "/metrics", 405, "GET, HEAD"),
                ("TRACE", "/nothing", 404, nil), ("OPTIONS", "/nothing", 404, nil),
            ])
        func methods(method: String, path: String, status: Int, allow: String?) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(method, path)
                let answer = try peer.answer()
                #expect(answer.status == status)
                #expect(answer.headers["allow"] == allow)
            }
        }

        @Test(
            "REG-5 a credential comes behind one blank or more",
            arguments: [
                ("Bearer ", 200), ("Bearer   ", 200), ("bEARER  ", 200), ("Bearer", 401),
                ("Bearer,", 401),
            ])
        func blanks(scheme: String, status: Int) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "POST", Self.send, headers: [("Authorization", scheme + served.serverKey)],
                    Self.body)
                #expect(try peer.answer().status == status)
            }
        }

        @Test("GW-2 /metrics is served under no other spelling")
        func spellings() async throws {
            try await ServedGateway.run { served in
                for path in ["/%6detrics", "/metrics/", "//metrics", "/./metrics", "/METRICS"] {
                    let peer = try served.peer()
                    peer.request("GET", path)
                    #expect([400, 404].contains(try peer.answer().status), "\(path)")
                }
            }
        }

        @Test("OPS-5 a body that breaks after its answer gets no second answer")
        func brokenBody() async throws {
            try await ServedGateway.run { served in
                for isEarly in [true, false] {
                    let peer = try served.peer()
                    let path = isEarly ? "/nothing" : "/token"
                    peer.write(
                        "POST \(path) HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
                    if isEarly { #expect(try peer.answer().status == 404) }
                    peer.write("1\r\nx\r\nzz\r\n")
                    if !isEarly { #expect(try peer.answer().status == 400) }
                    #expect(throws: HTTPPeer.Failure.self) { try peer.answer() }
                }
            }
        }

        @Test("OPS-5 what is around the content of a body is bounded too")
        func framing() async throws {
            try await ServedGateway.run { served in
                let begin = head(served, "Host: h\r\nTransfer-Encoding: chunked\r\n")
                let peer = try served.peer()
                peer.write(begin + "1;x=")
                let piece = String(repeating: "x", count: 65_536)
                var count = 0
                while count < 1024, peer.write(piece) { count += 1 }
                #expect(count < 1024)
                // A writer of single bytes is served.
                let bytes = Self.body + String(repeating: " ", count: 40_000)
                let honest = try served.peer()
                honest.write(
                    begin + bytes.map { "00001\r\n\($0)\r\n" }.joined() + "0\r\n\r\n")
                #expect(try honest.answer().status == 200)
            }
        }

        @Test(
            "GW-13 a request for a WebSocket of another version learns the right one",
            arguments: [
                ("13", 101), ("8", 426), ("14", 426), ("", 426), ("13, 8", 426),
            ])
        func webSocketVersions(version: String, status: Int) async throws {
            try await ServedGateway.run(doors: [SocketDoor()]) { served in
                let peer = try served.peer()
                peer.request(
                    "GET", "/socket",
                    headers: [
                        ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                        ("Sec-WebSocket-Version", version),
                    ])
                let answer = try peer.answer()
                #expect(answer.status == status)
                guard status == 426 else { return }
                #expect(answer.headers["sec-websocket-version"] == "13")
                #expect(answer.headers["upgrade"] == "websocket")
                #expect(throws: HTTPPeer.Failure.self) { try peer.answer() }
            }
        }

        @Test(
            "GW-1 a request that offers another protocol is answered as it stands, and is the last",
            arguments: ["h2c", "websocket", "h2c, websocket", "TLS/1.0"])
        func offeredProtocols(upgrade: String) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "GET", "/healthz",
                    headers: [
                        ("Upgrade", upgrade), ("Connection", "Upgrade, HTTP2-Settings"),
                        ("HTTP2-Settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
                    ])
                let answer = try peer.answer()
                #expect(answer.status == 200 && answer.headers["connection"] == "close")
                #expect(throws: HTTPPeer.Failure.self) { try peer.answer() }
            }
        }
    }
}
