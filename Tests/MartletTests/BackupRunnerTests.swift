// SPDX-License-Identifier: Apache-2.0
//
// Backups that an administrator takes over a connection: the bytes of the program that makes the backup, one backup at a time,
// and nothing for anybody else (OPS-7). Rests on Support.

import Foundation
import Martlet
import MartletBase
import MartletClient
import MartletWire
import Testing

@Suite("Backups over a connection", .timeLimit(.minutes(2)))
struct BackupRunnerTests {
    /// A broker whose backups are the output of a script.
    private func open(_ script: String) async throws -> TestBroker {
        try await .open { $0.backupCommand = ["/bin/sh", "-c", script] }
    }

    private func administrator(of test: TestBroker) -> MartletAdministrator {
        MartletAdministrator(
            host: "127.0.0.1", port: Int(test.broker.port!),
            administratorKey: test.broker.administratorKey)
    }

    /// All bytes of a backup.
    private func whole(_ administrator: MartletAdministrator) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        var part = try await administrator.backupPart(of: 0)
        while !part.isLast {
            bytes += part.content
            if part.content.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
            part = try await administrator.backupPart(of: part.backup)
        }
        return bytes + part.content
    }

    @Test(
        "OPS-7 a backup has all bytes of the program that makes it, and the next one begins anew")
    func whole() async throws {
        let test = try await open("head -c 300000 /dev/zero; printf end")
        let administrator = self.administrator(of: test)
        let expected = [UInt8](repeating: 0, count: 300_000) + Array("end".utf8)
        for _ in 0..<2 {
            let came = try await whole(administrator)
            #expect(came == expected)
        }
        await administrator.close()
        try await test.broker.close()
    }

    @Test("OPS-7 a program that fails makes no backup")
    func failure() async throws {
        let test = try await open("printf some; exit 3")
        let administrator = self.administrator(of: test)
        let error = await #expect(throws: MartletError.self) { try await whole(administrator) }
        #expect(error?.word == .internal)
        await administrator.close()
        try await test.broker.close()
    }

    @Test("OPS-7 a second backup waits for the first, and not for an administrator who has gone")
    func second() async throws {
        let test = try await open("printf begun; exec sleep 60")
        let (first, second) = (administrator(of: test), administrator(of: test))
        let begun = try await first.backupPart(of: 0)
        let refusal = await #expect(throws: MartletError.self) {
            try await second.backupPart(of: 0)
        }
        #expect(refusal?.word == .resourceExhausted)
        #expect(refusal?.retryDelayMilliseconds == UInt32(Limits.backupYieldSeconds) * 1000)
        // Whoever asks on keeps the backup.
        _ = try await first.backupPart(of: begun.backup)
        await first.close()
        try await Task.sleep(for: .seconds(Limits.backupYieldSeconds) + .milliseconds(100))
        let other = try await second.backupPart(of: 0)
        #expect(other.backup != begun.backup)
        let ended = await #expect(throws: MartletError.self) {
            try await second.backupPart(of: begun.backup)
        }
        #expect(ended?.word == .unavailable)
        await second.close()
        try await test.broker.close()
    }

    @Test(
        "OPS-7 nobody but an administrator gets a backup, and a broker without a program has none")
    func refusals() async throws {
        let test = try await open("printf secret")
        let sender = try test.sender()
        try sender.send(.request(BackupRequest(correlation: 7, backup: 0)))
        #expect(try sender.error().word == .permissionDenied)
        try await test.broker.close()

        let without = try await TestBroker.open()
        let administrator = self.administrator(of: without)
        let error = await #expect(throws: MartletError.self) {
            try await administrator.backupPart(of: 0)
        }
        #expect(error?.word == .unavailable)
        await administrator.close()
        try await without.broker.close()
    }
}
