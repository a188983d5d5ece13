// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 and HTTP/1.1 over TLS, as a client of others sees them. Rests on curl and openssl.

import Foundation
import Martlet
import MartletGateway
import Testing

private let hasTools = ["/usr/bin/curl", "/usr/bin/openssl"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

extension OverHTTP {
    @Suite("Gateway: TLS", .serialized, .enabled(if: hasTools, "needs curl and openssl"))
    struct TLSTests {
        /// What a program prints.
        private static func run(_ program: String, _ arguments: [String]) async throws -> String {
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

        private static func certificate(
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
            "GW-1 over TLS a client has HTTP/2 or HTTP/1.1, as it likes", arguments: ["2", "1.1"])
        func versions(version: String) async throws {
            let folder = TestFolder()
            let files = try await Self.certificate(in: folder)
            try await ServedGateway.run({
                $0.certificate = files
                // The second is no repetition of the first.
                $0.retrySeconds = 0
            }) { served in
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

        @Test("OPS-5 over HTTP/2 too a body that is too long is refused in the envelope")
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
                #expect(printed.contains("INVALID_ARGUMENT"))
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
