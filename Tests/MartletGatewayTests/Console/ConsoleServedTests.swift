// SPDX-License-Identifier: Apache-2.0
//
// The console over HTTP/2, as a browser sees it: each cookie is a field of its own (GW-9). Rests on curl, openssl and
// ConsoleWorld.

import Foundation
import Logging
import Martlet
import MartletAnswers
import MartletGateway
import ServiceLifecycle
import Testing

import MartletConsole

private let hasTools = ["/usr/bin/curl", "/usr/bin/openssl"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

extension OverHTTP {
    @Suite("Console: over HTTP/2", .serialized, .enabled(if: hasTools, "needs curl and openssl"))
    struct ConsoleServedTests {
        @Test(
            "GW-9 a session holds when a browser sends each cookie in a field of its own, over HTTP/2 and HTTP/1.1"
        )
        func severalFields() async throws {
            let folder = TestFolder()
            let files = try await TLSTests.certificate(in: folder)
            try await ConsoleWorld.with(isSecure: true) { world in
                let browser = try await world.signedIn(.viewer)
                var configuration = GatewayConfiguration()
                configuration.certificate = files
                configuration.address.port = 0
                configuration.logger.logLevel = .critical
                let server = try GatewayServer(
                    Gateway(world.broker, configuration, doors: [world.console.door]))
                let services = ServiceGroup(
                    configuration: .init(services: [server], logger: configuration.logger))
                try await withThrowingTaskGroup(of: Void.self) { tasks in
                    tasks.addTask { try await services.run() }
                    let url = "https://localhost:\(try await server.port())/console/api/v1/projects"
                    let cookies =
                        ["a=b"] + browser.cookie.split(separator: "; ").map(String.init) + ["c=d"]
                    for version in ["2", "1.1"] {
                        let printed = try await TLSTests.run(
                            "/usr/bin/curl",
                            [
                                "--silent", "--cacert", files.chain, "--http\(version)", "-o",
                                "/dev/null", "-w", "%{http_version} %{http_code}",
                            ] + cookies.flatMap { ["-H", "Cookie: \($0)"] } + [url])
                        #expect(printed == "\(version) 200")
                    }
                    await services.triggerGracefulShutdown()
                    try await tasks.waitForAll()
                }
            }
        }
    }
}
