// SPDX-License-Identifier: Apache-2.0
//
// The example of the documentation does what it says, and is the one that is compiled here (EMB-1).
// Rests on WeatherServer.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import Testing

@Suite("Gateway: a server of one's own", .serialized)
struct EmbeddingTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test("EMB-1 the example in the documentation is the one that is compiled, in under 60 lines")
    func example() throws {
        let code = try String(
            contentsOf: Self.root.appending(path: "Tests/MartletGatewayTests/WeatherServer.swift"),
            encoding: .utf8)
        let page = try String(
            contentsOf: Self.root.appending(path: "Sources/Martlet/Martlet.docc/Gateway.md"),
            encoding: .utf8)
        #expect(page.contains("```swift\n\(code)```"))
        #expect(code.split(separator: "\n", omittingEmptySubsequences: false).count < 60)
    }

    @Test("EMB-1 a server of one's own reaches devices, and ends when it is told to")
    func weather() async throws {
        let folder = TestFolder()
        let before = try await folder.open()
        _ = try await before.createProject("weather")
        let key = try await before.createRegistrationKey(named: "app", in: "weather")
        try await before.close()
        let (warnings, incoming) = AsyncStream.makeStream(of: (place: String, text: String).self)
        let serving = Task {
            try await serveWeather(
                folder: folder.url.path, devices: .init(port: 0), sdks: .init(port: 0),
                warnings: warnings)
        }
        let port = try await port(in: folder)
        var options = DeviceOptions()
        options.registration = .key(key.text)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: port, projectID: "weather", appName: "com.example.weather",
            platform: .apple, options: options)
        let device = MartletDevice(host: "127.0.0.1", port: port, credentials: credentials)
        try await device.subscribe(toTopic: "coast")
        incoming.yield((place: "coast", text: "Storm"))
        var messages = device.messages.makeAsyncIterator()
        let message = try #require(try await messages.next())
        #expect(message.notification?.title == "Warning for coast")
        #expect(message.notification?.body == "Storm")
        await device.close()
        serving.cancel()
        _ = await serving.result
        // The broker has let go of the folder.
        let again = try await folder.open()
        #expect(try again.project("weather").instanceCount == 1)
        try await again.close()
    }

    /// Where the example's broker listens.
    private func port(in folder: TestFolder) async throws -> Int {
        let file = folder.url.appending(path: "serve.address")
        while true {
            let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
            let words = text.split(whereSeparator: \.isWhitespace)
            if words.count == 2, let port = Int(words[1]) { return port }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
