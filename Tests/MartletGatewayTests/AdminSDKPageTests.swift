// SPDX-License-Identifier: Apache-2.0
//
// The page "Use your existing Admin SDK code": its Python runs as it is printed, with another address
// and a token. Rests on SDKWorld.

import Foundation
import MartletClient
import MartletGateway
import Testing

@Suite(
    "Gateway: the page on Admin SDKs", .timeLimit(.minutes(5)),
    .enabled(if: PythonClients.areInstalled, "make python-sdks has not been run"))
struct AdminSDKPageTests {
    @Test(
        "GW-1 GW-2 GW-5 GW-14 the code on the page does what the page says",
        arguments: PythonClients.Version.allCases)
    func page(_ version: PythonClients.Version) async throws {
        try await PythonClients.$version.withValue(version) { try await page() }
    }

    private func page() async throws {
        let page = try String(contentsOf: PythonClients.page, encoding: .utf8)
        let blocks = page.components(separatedBy: "```python\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count == 3)
        try await SDKWorld.run { sdk in
            let device = try await sdk.world.newDevice(.apple)
            let script = blocks.joined(separator: "\n")
                .replacing("http://127.0.0.1:8080", with: sdk.url)
                .replacing("REGISTRATION-TOKEN", with: device.credentials.token)
            let file = sdk.world.folder.url.appending(path: "page.py")
            try script.write(to: file, atomically: true, encoding: .utf8)
            let printed = try await PythonClients.run([file.path], in: sdk.world.folder.url)
                .split(separator: "\n")
            var messages = device.messages.makeAsyncIterator()
            let storm = try #require(try await messages.next())
            #expect(storm.notification == .init(title: "Storm", body: "Force 9"))
            #expect(storm.applePayload.badge == 1)
            #expect(try await messages.next()?["level"] == "9")
            await device.close()
            #expect(
                printed == [
                    storm.messageID[...],
                    "The registration token is not a valid FCM registration token", "weather",
                ])
        }
    }
}
