// SPDX-License-Identifier: Apache-2.0
//
// Bodies in gzip, as Google's clients for Java and .NET send them. Rests on ServedGateway and zlib.

import CZlib
import Foundation
import Martlet
import MartletGateway
import Testing

/// A file of gzip.
private func gzip(_ content: [UInt8]) -> [UInt8] {
    var stream = z_stream()
    return withUnsafeMutablePointer(to: &stream) { stream in
        // 16 + 15: the gzip format.
        deflateInit2_(
            stream, 9, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        defer { deflateEnd(stream) }
        var input = content
        var output = [UInt8](repeating: 0, count: Int(deflateBound(stream, UInt(content.count))))
        let count = output.count
        input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.pointee.next_in = input.baseAddress
                stream.pointee.avail_in = UInt32(input.count)
                stream.pointee.next_out = output.baseAddress
                stream.pointee.avail_out = UInt32(output.count)
                deflate(stream, Z_FINISH)
            }
        }
        return Array(output[..<(count - Int(stream.pointee.avail_out))])
    }
}

extension OverHTTP {
    @Suite("Gateway: compressed bodies", .serialized)
    struct CompressedBodyTests {
        private static let send = "/v1/projects/tides/messages:send"
        private static let message = Array(#"{"message":{"topic":"t","data":{"a":"b"}}}"#.utf8)

        private func headers(_ served: ServedGateway, _ coding: String) -> [(String, String)] {
            [("Authorization", "Bearer \(served.serverKey)"), ("Content-Encoding", coding)]
        }

        @Test(
            "GW-16 a body in gzip is what it holds",
            arguments: ["gzip", "GZIP", "x-gzip", "identity, gzip"])
        func unpacked(coding: String) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                for bytes in [
                    gzip(Self.message),
                    // Two files are one body.
                    gzip(Array(Self.message[..<10])) + gzip(Array(Self.message[10...])),
                ] {
                    peer.request(
                        "POST", Self.send, headers: headers(served, coding), bytes: bytes)
                    #expect(try peer.answer().status == 200)
                }
                // In chunks, as clients send what they compress on the way.
                peer.write(
                    "POST \(Self.send) HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                        + headers(served, coding).map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n")
                for byte in gzip(Self.message) { peer.write(Array("1\r\n".utf8) + [byte, 13, 10]) }
                peer.write("0\r\n\r\n")
                #expect(try peer.answer().status == 200)
            }
        }

        @Test(
            "GW-16 every route with JSON or a form unpacks its body",
            arguments: [
                ("/fcm/send", #"{"to":"/topics/t","data":{"a":"b"}}"#),
                ("/iid/v1:batchAdd", #"{"to":"/topics/t","registration_tokens":["x"]}"#),
                ("/token", "grant_type=x&assertion=y"),
            ])
        func routes(path: String, body: String) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "POST", path,
                    headers: [
                        ("Authorization", "key=\(served.serverKey)"),
                        ("Content-Encoding", "gzip"),
                    ], bytes: gzip(Array(body.utf8)))
                let packed = try peer.answer()
                peer.request(
                    "POST", path, headers: [("Authorization", "key=\(served.serverKey)")], body)
                let plain = try peer.answer()
                #expect(packed.status == plain.status)
                // Each send has a number of its own.
                #expect(path == "/fcm/send" ? packed.status == 200 : packed.body == plain.body)
            }
        }

        @Test(
            "GW-16 another coding is refused, and the answer names the right one",
            arguments: ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "aes128gcm"])
        func otherCodings(coding: String) async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request(
                    "POST", Self.send, headers: headers(served, coding), bytes: Self.message)
                let answer = try peer.answer()
                #expect(answer.status == 415)
                #expect(answer.headers["accept-encoding"] == "gzip")
                #expect(answer.json["error"]?["status"] == .string("INVALID_ARGUMENT"))
                // Without a body there is nothing to unpack, and without a credential nothing to learn.
                peer.request("GET", "/healthz", headers: [("Content-Encoding", coding)])
                #expect(try peer.answer().status == 200)
                peer.request("POST", Self.send, headers: [("Content-Encoding", coding)], "{}")
                #expect(try peer.answer().status == 401)
            }
        }

        @Test("GW-16 what is not gzip, or not whole, is refused")
        func broken() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let whole = gzip(Self.message)
                var changed = whole
                changed[whole.count - 6] ^= 1
                for bytes in [
                    Self.message, Array(whole.dropLast()), Array(whole.prefix(9)), changed,
                    whole + [0], whole + whole.prefix(5),
                ] {
                    peer.request(
                        "POST", Self.send, headers: headers(served, "gzip"), bytes: bytes)
                    let answer = try peer.answer()
                    #expect(answer.status == 400)
                    #expect(answer.body.contains("gzip"))
                }
                peer.request("POST", Self.send, headers: headers(served, "gzip"), bytes: whole)
                #expect(try peer.answer().status == 200)
            }
        }

        @Test("GW-16 OPS-5 the bound on a body holds for what comes out of it")
        func bomb() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                let most = served.gateway.configuration.bodyBytesMax
                func padded(_ count: Int) -> [UInt8] {
                    Self.message
                        + [UInt8](repeating: UInt8(ascii: " "), count: count - Self.message.count)
                }
                for (count, status) in [
                    (Limits.httpMessageBytesMax, 200), (most, 400), (most + 1, 413),
                    (64 << 20, 413),
                ] {
                    let bytes = gzip(padded(count))
                    #expect(bytes.count < most)
                    peer.request(
                        "POST", Self.send, headers: headers(served, "gzip"), bytes: bytes)
                    #expect(try peer.answer().status == status, "\(count)")
                }
                // A stranger's body has a stranger's bound.
                peer.request(
                    "POST", "/token", headers: [("Content-Encoding", "gzip")],
                    bytes: gzip(padded(Limits.httpStrangerBodyBytesMax + 1)))
                #expect(try peer.answer().status == 413)
            }
            try await ServedGateway.run({ $0.bodyMegabytesMax = 1 }) { served in
                // What comes out counts as the memory of bodies too.
                let peer = try served.peer()
                let spaces = [UInt8](repeating: UInt8(ascii: " "), count: 510_000)
                peer.request(
                    "POST", Self.send, headers: headers(served, "gzip"),
                    bytes: gzip(Self.message + spaces))
                #expect(try peer.answer().status == 400)
                peer.request(
                    "POST", Self.send, headers: headers(served, "gzip"),
                    bytes: (0..<20).flatMap { _ in gzip([]) + gzip(spaces) })
                #expect(try peer.answer().status == 413)
                peer.request("POST", Self.send, headers: headers(served, ""), bytes: Self.message)
                #expect(try peer.answer().status == 200)
            }
        }

        @Test("GW-16 the body of a call without a server is unpacked too")
        func withoutServer() async throws {
            let world = try await GatewayWorld.open()
            let call = try #require(
                GatewayCall(
                    .post, target: Self.send,
                    headers: [
                        ("authorization", "Bearer \(world.serverKey)"),
                        ("content-encoding", "gzip"),
                    ], body: gzip(Self.message)))
            #expect(await world.gateway.answer(call).status == 200)
            try await world.broker.close()
        }

        @Test(
            "GW-16 over TLS too, with HTTP/2 and HTTP/1.1",
            .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")),
            arguments: ["2", "1.1"])
        func overTLS(version: String) async throws {
            let folder = TestFolder()
            let files = try await TLSTests.certificate(in: folder)
            let upload = folder.url.appending(path: "upload").path
            #expect(
                FileManager.default.createFile(atPath: upload, contents: Data(gzip(Self.message))))
            try await ServedGateway.run({ $0.certificate = files }) { served in
                for (coding, status) in [("gzip", "200"), ("br", "415")] {
                    let printed = try await TLSTests.run(
                        "/usr/bin/curl",
                        [
                            "--silent", "--cacert", files.chain, "--http\(version)", "-w",
                            "%{http_code}", "-o", "/dev/null", "-H",
                            "Authorization: Bearer \(served.serverKey)", "-H",
                            "Content-Encoding: \(coding)", "--data-binary", "@\(upload)",
                            "https://localhost:\(served.port)\(Self.send)",
                        ])
                    #expect(printed == status)
                }
            }
        }
    }
}
