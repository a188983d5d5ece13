// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 and HTTP/1.1 over TLS, as a client of others sees them. Rests on curl and openssl.

import Foundation
import Martlet
import MartletGateway
import NIOCore
import NIOSSL
import Testing

private let hasTools = ["/usr/bin/curl", "/usr/bin/openssl"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

extension OverHTTP {
    @Suite("Gateway: TLS", .serialized, .enabled(if: hasTools, "needs curl and openssl"))
    struct TLSTests {
        /// What a program prints.
        static func run(_ program: String, _ arguments: [String]) async throws -> String {
            let process = Process()
            process.executableURL = URL(filePath: program)
            process.arguments = arguments
            let output = Pipe()
            process.standardOutput = output
            process.standardError = Pipe()
            return try await withCheckedThrowingContinuation { continuation in
                process.terminationHandler = { _ in
                    let data = output.fileHandleForReading.readDataToEndOfFile()
                    continuation.resume(returning: String(decoding: data, as: UTF8.self))
                }
                do { try process.run() } catch { continuation.resume(throwing: error) }
            }
        }

        static func certificate(
            in folder: TestFolder
        ) async throws -> GatewayConfiguration.Certificate {
            try FileManager.default.createDirectory(
                at: folder.url, withIntermediateDirectories: true)
            let files = GatewayConfiguration.Certificate(
                chain: folder.url.appending(path: "chain.pem").path,
                key: folder.url.appending(path: "key.pem").path)
            _ = try await run(
                "/usr/bin/openssl",
                [
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", files.key, "-out", files.chain, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                ])
            return files
        }

        @Test(
            "GW-1 GW-8 over TLS a client has HTTP/2 or HTTP/1.1, as it likes, and two equal sends are two",
            arguments: ["2", "1.1"])
        func versions(version: String) async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            try await ServedGateway.run({ $0.certificate = files }) { served in
                let format = "\n%{http_version} %{http_code} %{num_connects}\n"
                let url = "https://localhost:\(served.port)/v1/projects/tides/messages:send"
                let printed = try await Self.run(
                    "/usr/bin/curl",
                    [
                        "--silent", "--cacert", files.chain, "--http\(version)", "-w", format,
                        "-H", "Authorization: Bearer \(served.serverKey)",
                        "-d", #"{"message":{"topic":"t","data":{"a":"b"}}}"#, url, url,
                    ])
                let lines = printed.split(separator: "\n").map(String.init)
                #expect(
                    lines == [
                        #"{"name":"projects/tides/messages/1"}"#, "\(version) 200 1",
                        #"{"name":"projects/tides/messages/2"}"#, "\(version) 200 0",
                    ])
            }
        }

        @Test(
            "OPS-6 certificate and key that an editor wrote again are read",
            arguments: ["\n", "\r\n", "\r"])
        func edited(end: String) async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            let authority = folder.url.appending(path: "authority.pem")
            try FileManager.default.copyItem(at: URL(filePath: files.chain), to: authority)
            for file in [files.chain, files.key] {
                let text = try String(contentsOfFile: file, encoding: .utf8)
                try Data(("\u{FEFF}" + text.replacing("\n", with: end)).utf8)
                    .write(to: URL(filePath: file))
            }
            try await ServedGateway.run({ $0.certificate = files }) { served in
                let printed = try await Self.run(
                    "/usr/bin/curl",
                    [
                        "--silent", "--cacert", authority.path, "-w", "%{http_code}",
                        "-o", "/dev/null", "https://localhost:\(served.port)/healthz",
                    ])
                #expect(printed == "200")
            }
        }

        @Test(
            "OPS-6 a handshake that fails leaves a line with its reason; a peer that hangs up does not"
        )
        func failedHandshakes() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            let lines = LogLines()
            try await ServedGateway.run({
                $0.certificate = files
                $0.logger = lines.logger
            }) { served in
                // A check of the port's health.
                _ = try served.peer()
                let plain = try served.peer()
                plain.request("GET", "/healthz")
                var told: [String] = []
                while told.isEmpty {
                    try await Task.sleep(for: .milliseconds(10))
                    told = lines.all.filter { $0.contains("TLS with a peer failed") }
                }
                try #require(told.count == 1, "\(told)")
                #expect(told[0].contains("from=127.0.0.1"))
                #expect(told[0].contains("reason=http request"), "\(told)")
            }
        }

        @Test("OPS-5 over HTTP/2 too a body that is too long is refused, in the form of its route")
        func longBody() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            try await ServedGateway.run({
                $0.certificate = files
                $0.bodyBytesMax = 1000
            }) { served in
                let printed = try await Self.run(
                    "/usr/bin/curl",
                    [
                        "--silent", "--cacert", files.chain, "--http2", "-w", "\n%{http_code}\n",
                        "-d", String(repeating: "x", count: 2000),
                        "https://localhost:\(served.port)/token",
                    ])
                #expect(printed.hasSuffix("\n413\n"))
                #expect(printed.contains("\"error\":\"invalid_request\""))
            }
        }

        @Test(
            "OPS-7 over HTTP/2 a drained node turns sends away, and their connection takes no more")
        func drained() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            let sign = DrainSign()
            try await ServedGateway.run(drain: sign, { $0.certificate = files }) { served in
                let url = "https://localhost:\(served.port)/v1/projects/tides/messages:send"
                func sendTwice() async throws -> String {
                    try await Self.run(
                        "/usr/bin/curl",
                        [
                            "--silent", "--cacert", files.chain, "--http2",
                            "-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null", "-o",
                            "/dev/null",
                            "-H", "Authorization: Bearer \(served.serverKey)",
                            "-d", #"{"message":{"topic":"t","data":{"a":"b"}}}"#, url, url,
                        ])
                }
                let before = try await sendTwice()
                #expect(before == "200 1\n200 0\n")
                sign.set(true)
                let drained = try await sendTwice()
                #expect(drained == "503 1\n503 1\n")
            }
        }

        /// Runs a scenario of `http2_peer.py` against a gateway whose requests have two seconds.
        private static func peer(
            _ scenario: String, idleSeconds: UInt32 = Limits.httpIdleSeconds,
            requestSeconds: UInt32 = 2, _ arguments: (ServedGateway) -> JSONValue
        ) async throws -> JSONValue {
            let folder = TestFolder()
            let files = try await certificate(in: folder)
            var result = JSONValue.null
            try await ServedGateway.run({
                $0.certificate = files
                $0.requestSeconds = requestSeconds
                $0.idleSeconds = idleSeconds
            }) { served in
                let printed = try await run(
                    "/usr/bin/python3",
                    [
                        PythonClients.script("http2_peer.py"), "\(served.port)", files.chain,
                        scenario, arguments(served).text,
                    ])
                result = try json(printed.trimmingCharacters(in: .newlines))
            }
            return result
        }

        @Test("GW-8 over HTTP/2 a stream that is reset and repeated is one message, and others are")
        func reset() async throws {
            let names = try await Self.peer("reset") { served in
                .object([
                    "key": .string(served.serverKey),
                    "path": .string("/v1/projects/tides/messages:send"),
                    "body": .string(#"{"message":{"topic":"t","data":{"a":"b"}}}"#),
                ])
            }
            let expected = (1...3).map { JSONValue.string("projects/tides/messages/\($0)") }
            guard case .array(let list) = names else {
                Issue.record("no names: \(names)")
                return
            }
            #expect(list.first == expected.first && Set(list) == Set(expected))
        }

        @Test(
            "GW-15 over HTTP/2 a stranger has few streams at a time, and many more end the connection"
        )
        func strangers() async throws {
            let told = try await Self.peer("strangers") { _ in .object(["count": .integer(50)]) }
            let most = Int64(50 - Limits.httpStrangerStreamsMax)
            #expect(told["refused"] == .integer(most), "\(told)")
            #expect(told["ended"] == .bool(true), "\(told)")
        }

        @Test(
            "GW-15 over HTTP/2 a caller with a right credential begins a hundred requests at once")
        func burst() async throws {
            let told = try await Self.peer("burst") { served in
                .object([
                    "key": .string(served.serverKey), "count": .integer(100),
                    "path": .string("/v1/projects/tides/messages:send"),
                    "body": .string(#"{"message":{"topic":"t","data":{"a":"b"}}}"#),
                ])
            }
            #expect(told == .integer(100))
        }

        /// What becomes of heads on one connection of HTTP/2, and of a request begun before them.
        private static func outcomes(_ heads: [[(String, String)]]) async throws -> [JSONValue] {
            let told = try await peer("heads") { _ in
                .object([
                    "requests": .array(
                        heads.map { .array($0.map { .array([.string($0.0), .string($0.1)]) }) })
                ])
            }
            guard case .array(let outcomes) = told else { return [] }
            return outcomes
        }

        private static let ordinary = [
            (":method", "GET"), (":scheme", "https"), (":path", "/healthz"), (":authority", "l"),
        ]

        @Test("GW-1 a malformed request of HTTP/2 is reset, and its connection goes on")
        func malformed() async throws {
            let ordinary = Self.ordinary
            let malformed = [
                ordinary.filter { $0.0 != ":path" }, ordinary + [(":path", "/healthz")],
                ordinary + [("a", "b"), (":status", "200")], ordinary + [("connection", "close")],
                ordinary + [("Upper", "case")], ordinary + [("te", "gzip")],
                ordinary + [("content-length", "5")], ordinary + [("a", "b\r\nc: d")],
            ]
            let outcomes = try await Self.outcomes(malformed + [ordinary])
            let reset = [JSONValue](repeating: .string("reset 1"), count: malformed.count)
            #expect(outcomes == reset + [.string("200"), .string("200")], "\(outcomes)")
        }

        @Test("GW-1 a head of HTTP/2 that servers may read differently is refused, and no other")
        func ambiguousHeads() async throws {
            let ordinary = Self.ordinary
            let nameless = ordinary.filter { $0.0 != ":authority" }
            let refused = [
                ordinary + [("host", "l"), ("host", "l")], ordinary + [("host", "other")],
                nameless + [("host", "l"), ("host", "m")], nameless + [(":authority", "u@l")],
                nameless + [("host", "l/m")],
                ordinary.map { ($0.0, $0.1 == "https" ? "http" : $0.1) },
                ordinary + [("authorization", "Bearer a"), ("authorization", "Bearer a")],
            ]
            let served = [ordinary, ordinary + [("host", "l")], nameless + [("host", "l")]]
            let outcomes = try await Self.outcomes(refused + served)
            let expected = refused.map { _ in "400" } + served.map { _ in "200" } + ["200"]
            #expect(outcomes == expected.map { .string($0) }, "\(outcomes)")
        }

        @Test("GW-1 an error that ends a connection of HTTP/2 is told before")
        func farewell() async throws {
            let codes = try await Self.peer("goaway") { _ in .object([:]) }
            #expect(codes == .array([.integer(1)]), "\(codes)")
        }

        @Test("OPS-5 a flood of WINDOW_UPDATE over HTTP/2 ends the connection")
        func flood() async throws {
            let told = try await Self.peer("flood") { _ in .object(["count": .integer(5000)]) }
            #expect(told["ended"] == .bool(true), "\(told)")
        }

        @Test("OPS-5 a frame of HTTP/2 that comes slowly ends the connection in a request's time")
        func drip() async throws {
            let told = try await Self.peer("drip") { _ in .object(["seconds": .integer(15)]) }
            #expect(told["ended"] == .bool(true), "\(told)")
        }

        @Test(
            "GW-15 NET-5 a client of HTTP/2 without requests that answers no PING is disconnected after GOAWAY"
        )
        func deaf() async throws {
            let told = try await Self.peer("deaf", idleSeconds: 2, requestSeconds: 3600) { _ in
                .object(["seconds": .integer(20)])
            }
            #expect(told["ended"] == .bool(true), "\(told)")
        }

        @Test(
            "GW-15 with silent connections of an address in all places for handshakes, others connect"
        )
        func handshakes() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            try await ServedGateway.run({ $0.certificate = files }) { served in
                let silent = try (0..<260).map { _ in try served.peer() }
                let printed = try await Self.run(
                    "/usr/bin/curl",
                    [
                        "--silent", "--cacert", files.chain, "--interface", "127.0.0.2",
                        "https://localhost:\(served.port)/healthz",
                    ])
                #expect(printed == "ok\n")
                // A client of the silent address waits for its turn, and is not cut off.
                let later = try await Self.run(
                    "/usr/bin/curl",
                    [
                        "--silent", "--cacert", files.chain,
                        "https://localhost:\(served.port)/healthz",
                    ])
                #expect(later == "ok\n")
                for peer in silent { try peer.end() }
            }
        }

        @Test("GW-15 half handshakes of an address pass their turns on, and its others connect")
        func halfHandshakes() async throws {
            let told = try await Self.peer("half") { _ in .object(["count": .integer(400)]) }
            // With a turn of four seconds each, and a second behind it, it would be half a minute.
            guard case .integer(let milliseconds) = told else {
                Issue.record("no time: \(told)")
                return
            }
            #expect(milliseconds < 15_000)
        }

        @Test("NET-5 a closing TLS connection does not wait long for a peer that reads nothing")
        func closing() async throws {
            let folder = TestFolder()
            let certificate = try ServerCertificate(
                try await Self.certificate(in: folder), setting: "http")
            #expect(
                certificate.configuration.shutdownTimeout
                    == .milliseconds(Limits.tlsCloseMilliseconds))
        }

        @Test("GW-15 over HTTP/2 too a client that sends a long refused body sees the answer")
        func refusedUpload() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            let upload = folder.url.appending(path: "upload").path
            let bytes = Data(repeating: UInt8(ascii: "x"), count: 6 << 20)
            #expect(FileManager.default.createFile(atPath: upload, contents: bytes))
            try await ServedGateway.run({ $0.certificate = files }) { served in
                for version in ["2", "1.1"] {
                    let printed = try await Self.run(
                        "/usr/bin/curl",
                        [
                            "--silent", "--show-error", "--cacert", files.chain,
                            "--http\(version)", "-w", "%{http_code} %{exitcode}", "-o",
                            "/dev/null", "-H", "Expect:", "--data-binary", "@\(upload)",
                            "https://localhost:\(served.port)/token",
                        ])
                    #expect(printed == "413 0", "HTTP/\(version)")
                }
            }
        }

        @Test("OPS-5 plain text where TLS is spoken ends the connection")
        func plainText() async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            try await ServedGateway.run({ $0.certificate = files }) { served in
                let peer = try served.peer()
                peer.request("GET", "/healthz")
                try peer.end()
            }
        }
    }
}
