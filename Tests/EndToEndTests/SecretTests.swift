// SPDX-License-Identifier: Apache-2.0
//
// Looks for secrets where an attacker with a copy of the disk would: in the bytes of the data files.
// Rests on the embedding API.

import Foundation
import Martlet
import Testing

@Suite("Secrets at rest")
struct SecretTests {
    @Test(
        "REG-1 REG-5: neither a server key nor a device key can be read in any file of the data folder"
    )
    func secrets() async throws {
        let folder = NSTemporaryDirectory() + "martlet-secrets-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let broker = try await Broker.open(BrokerConfiguration(folder: folder))
        _ = try await broker.createProject("tides")
        let key = try await broker.createServerKey(named: "a-name-that-is-found", in: "tides")
        let device = try await broker.register(
            app: "com.example.tides", platform: .android, in: "tides")
        try await broker.close()
        var everything = Data()
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            everything += try Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
        }
        // What is stored as it is shows that this looks in the right place.
        #expect(everything.range(of: Data("a-name-that-is-found".utf8)) != nil)
        #expect(everything.range(of: Data(key.id.utf8)) != nil)
        let secret = try #require(key.text.split(separator: ".").last)
        #expect(secret.utf8.count >= 32)
        #expect(everything.range(of: Data(secret.utf8)) == nil)
        #expect(everything.range(of: Data(device.deviceKey.utf8)) == nil)
        // Nor the bytes that the texts stand for.
        for text in [String(secret), device.deviceKey] {
            var base64 = text.replacingOccurrences(of: "-", with: "+")
                .replacingOccurrences(of: "_", with: "/")
            base64 += String(repeating: "=", count: (4 - base64.count % 4) % 4)
            let bytes = try #require(Data(base64Encoded: base64))
            #expect(everything.range(of: bytes) == nil)
        }
    }
}
