// SPDX-License-Identifier: Apache-2.0
//
// Peers with valid credentials that ask for what hurts others: answers longer than a frame, changes
// of an instance that is no longer theirs. And a broker that fails to open.

import Foundation
import Martlet
import MartletStore
import MartletWire
import Synchronization
import TestSupport
import Testing

@Suite("Hostile peers with credentials")
struct HostilityTests {
    @Test("NET-3 CON-9 an answer longer than a frame costs nobody anything")
    func boundsAnswers() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (bystander, _) = try test.newDevice()
        let sender = try test.sender()
        // Each of the mixed operators is worth an advice that quotes everything to its left.
        var condition = "'a'in topics"
        var isAnd = false
        while condition.utf8.count + 14 <= Limits.conditionBytesMax {
            condition += (isAnd ? "&&" : "||") + "'a'in topics"
            isAnd.toggle()
        }
        try sender.send(
            .request(ExplainRequest(correlation: 1, condition: condition))
        )
        guard let explanation = try sender.next().answer(as: Explanation.self) else {
            Issue.record("not explained")
            return
        }
        #expect(!explanation.advice.isEmpty)
        try bystander.roundTrip()
        try sender.roundTrip()
        try await test.broker.close()
    }

    @Test("REG-3 requests behind an UNREGISTER do not touch the ordinal's next holder")
    func keepsOutOfOthersInstances() async throws {
        let test = try await TestBroker.open(loops: 1)
        for round in 0..<40 {
            let leavers = try (0..<8).map { _ in try test.newDevice().peer }
            let newcomers = try (0..<8).map { _ in try test.peer() }
            // The newcomers take the ordinals as soon as they are free; what the leavers ask for behind
            // their UNREGISTER comes after that.
            for leaver in leavers {
                try leaver.send(.unregister(UnregisterRequest(correlation: 1)))
            }
            for newcomer in newcomers {
                try newcomer.send(
                    .hello(
                        .newDevice(
                            projectID: TestBroker.project, appName: "a.b", platform: .android)))
            }
            for correlation in 2...20 as ClosedRange<UInt32> {
                for leaver in leavers {
                    let spam = DeviceTopicsRequest(
                        operation: .subscribe, correlation: correlation, topics: ["spam"])
                    try? leaver.send(.deviceTopics(spam))
                }
            }
            for leaver in leavers { try leaver.waitForEnd() }
            for newcomer in newcomers {
                let token = try newcomer.welcome().token
                let topics = try test.broker.topics(of: token, in: TestBroker.project)
                #expect(topics.entries.isEmpty, "round \(round)")
                try newcomer.roundTrip()
                try newcomer.send(.unregister(UnregisterRequest(correlation: 1)))
                try newcomer.waitForEnd()
            }
        }
        try await test.broker.close()
    }

    @Test("NET-1 peers that are there before the broker has opened are served")
    func servesFromTheStart() async throws {
        let port = try FreePort.claim()
        let test = try await TestBroker.open(loops: 2) { $0.address!.port = port }
        try await test.broker.close()
        // Refused at once and without a write, so that the answer comes as early as can be.
        let isDone = Flag()
        let callers = (0..<4).map { _ in
            Thread {
                while !isDone.isSet {
                    guard let peer = try? Peer(port: port) else { continue }
                    try? peer.send(
                        .hello(.newDevice(projectID: "none", appName: "a", platform: .web)))
                    _ = try? peer.next()
                }
            }
        }
        for _ in 0..<30 {
            let again = try await TestBroker.open(in: test.folder) { $0.address!.port = port }
            try await again.broker.close()
        }
        isDone.set()
        for caller in callers { caller.join() }
    }

    @Test("EMB-1 a broker that could not be opened leaves no thread and no lock behind")
    func opensAgain() async throws {
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        let port = try FreePort.claim()
        let first = try await Broker.open(
            BrokerConfiguration(folder: other.path, address: .init(port: port)))
        let configuration = BrokerConfiguration(folder: folder.path, address: .init(port: port))
        await #expect(throws: (any Error).self) { try await Broker.open(configuration) }
        try await first.close()
        let broker = try await Broker.open(configuration)
        try await broker.close()
    }

    @Test("OPS-5 a broker that cannot write where it listens serves all the same")
    func opensWithoutItsAddress() async throws {
        let folder = TemporaryFolder()
        let file = folder.path + "/serve.address"
        _ = FileManager.default.createFile(atPath: file, contents: Data("127.0.0.1 1".utf8))
        // Where the address is to be written there is a folder.
        mkdir(file + ".new", 0o700)
        let broker = try await Broker.open(
            BrokerConfiguration(folder: folder.path, address: .init(port: 0)))
        try await broker.createOpenProject("tides")
        // What was there would lead elsewhere.
        #expect(!FileManager.default.fileExists(atPath: file))
        try await broker.close()
    }

    @Test(
        "OPS-5 a broker removes the address that a killed broker left, also if it has none itself")
    func removesLeftAddress() async throws {
        let folder = TemporaryFolder()
        let file = folder.path + "/serve.address"
        _ = FileManager.default.createFile(atPath: file, contents: Data("127.0.0.1 1".utf8))
        let broker = try await Broker.open(BrokerConfiguration(folder: folder.path))
        #expect(!FileManager.default.fileExists(atPath: file))
        try await broker.close()
    }

    @Test("OPS-5 an address counts while its broker listens, and not when a crash has left it")
    func servedAddress() async throws {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/serve.address")
        var configuration = BrokerConfiguration(folder: folder.path, address: .init(port: 0))
        #expect(ServedAddress(in: folder.path) == nil)
        let first = try await Broker.open(configuration)
        let found = try #require(ServedAddress(in: folder.path))
        let port = try #require(first.port)
        #expect(found.host == "127.0.0.1" && found.port == Int(port) && found.isServed())
        let text = try Data(contentsOf: file)
        try await first.close()
        #expect(!found.isServed())
        try text.write(to: file)
        #expect(ServedAddress(in: folder.path) == nil)

        configuration.address?.port = port
        let second = try await Broker.open(configuration)
        // A connection may be older than the second broker: only the next one is known to be its.
        #expect(!found.isServed())
        #expect(found.isServed())
        try await second.close()
    }

    @Test("REG-5 a key's file is its owner's alone, whatever a crash left beside it")
    func keyFile() async throws {
        let folder = TemporaryFolder()
        for name in ["admin.key", "token.key"] {
            _ = FileManager.default.createFile(
                atPath: "\(folder.path)/\(name).new", contents: Data("left".utf8),
                attributes: [.posixPermissions: 0o644])
        }
        let broker = try await Broker.open(BrokerConfiguration(folder: folder.path))
        for name in ["admin.key", "token.key"] {
            let attributes = try FileManager.default.attributesOfItem(
                atPath: "\(folder.path)/\(name)")
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
        try await broker.close()
    }

    @Test(
        "REG-5 a folder that all may write to, and files that others may read, draw a warning",
        arguments: [
            ("", 0o777, "chmod 700"), ("", 0o1777, "chmod 700"), ("", 0o2770, nil),
            ("admin.key", 0o644, "chmod 600"), ("token.key", 0o640, "chmod 600"),
            ("data.mdb", 0o604, "chmod 600"), ("journal.0", 0o660, "chmod 600"),
            ("admin.key", 0o400, nil),
        ] as [(String, Int, String?)])
    func exposed(name: String, mode: Int, advice: String?) async throws {
        let folder = TemporaryFolder()
        var configuration = BrokerConfiguration(folder: folder.path)
        try await Broker.open(configuration).close()
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o700], ofItemAtPath: folder.path)
        let path = name.isEmpty ? folder.path : folder.path + "/" + name
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let log = KeptLog()
        configuration.logger = log.logger()
        try await Broker.open(configuration).close()
        #expect(log.has("chmod") == (advice != nil), "\(log.all)")
        if let advice { #expect(log.has("warning", advice, name), "\(log.all)") }
    }

    @Test(
        "OPS-5 a key file with another text, or one that cannot be read, is refused and left as it is",
        arguments: ["admin.key", "token.key"], ["", "x", "link"])
    func strangeKeys(name: String, content: String) async throws {
        let folder = TemporaryFolder()
        let configuration = BrokerConfiguration(folder: folder.path)
        try await Broker.open(configuration).close()
        let path = folder.path + "/" + name
        try FileManager.default.removeItem(atPath: path)
        // A link to itself cannot be opened, also not by the superuser.
        if content == "link" {
            try FileManager.default.createSymbolicLink(
                atPath: path, withDestinationPath: path)
        } else {
            _ = FileManager.default.createFile(atPath: path, contents: Data(content.utf8))
        }
        let error = await #expect(throws: StoreOpenError.self) {
            try await Broker.open(configuration)
        }
        #expect(error?.description.contains(name) == true)
        if content != "link" {
            #expect(FileManager.default.contents(atPath: path) == Data(content.utf8))
        }
    }

    @Test("OPS-5 a key file with another text is called that, and the folder is not at fault")
    func garbage() async throws {
        let folder = TemporaryFolder()
        let configuration = BrokerConfiguration(folder: folder.path)
        try await Broker.open(configuration).close()
        let path = folder.path + "/admin.key"
        for content in [Data([0xFF, 0, 0xC3]), Data(repeating: 0x41, count: 2 << 20)] {
            try content.write(to: URL(filePath: path))
            let error = try #require(
                await #expect(throws: StoreOpenError.self) { try await Broker.open(configuration) })
            #expect(error.description.contains("'\(path)'"), "\(error)")
            #expect(!error.description.contains("Choose a folder"), "\(error)")
        }
    }

    @Test("OPS-5 a data file that cannot be opened is not called damaged, and its keys stay")
    func closedData() async throws {
        let folder = TemporaryFolder()
        let configuration = BrokerConfiguration(folder: folder.path)
        try await Broker.open(configuration).close()
        let data = folder.path + "/data.mdb"
        try FileManager.default.moveItem(atPath: data, toPath: data + ".kept")
        try FileManager.default.createSymbolicLink(atPath: data, withDestinationPath: data)
        let error = try #require(
            await #expect(throws: StoreOpenError.self) { try await Broker.open(configuration) })
        #expect(!error.description.contains("damaged"), "\(error)")
        try FileManager.default.removeItem(atPath: data)
        try FileManager.default.moveItem(atPath: data + ".kept", toPath: data)
        try await Broker.open(configuration).close()
    }

    @Test("OPS-5 a folder with keys and without data is no new broker's", arguments: [true, false])
    func lostData(isEmpty: Bool) async throws {
        let folder = TemporaryFolder()
        let configuration = BrokerConfiguration(folder: folder.path)
        let first = try await Broker.open(configuration)
        try await first.close()
        let data = folder.path + "/data.mdb"
        try FileManager.default.removeItem(atPath: data)
        if isEmpty { _ = FileManager.default.createFile(atPath: data, contents: nil) }
        let error = await #expect(throws: StoreOpenError.self) {
            try await Broker.open(configuration)
        }
        #expect(error?.description.contains("restore a backup") == true)
        try FileManager.default.removeItem(atPath: folder.path + "/admin.key")
        let second = try await Broker.open(configuration)
        try await second.close()
    }

    @Test("OPS-12 nothing is accepted any more once the data file was deleted")
    func deletedWhileServing() async throws {
        let folder = TemporaryFolder()
        let broker = try await Broker.open(BrokerConfiguration(folder: folder.path))
        try await broker.createOpenProject("tides")
        try FileManager.default.removeItem(atPath: folder.path + "/data.mdb")
        for number in 0..<3 {
            let error = await #expect(throws: MartletError.self) {
                try await broker.createProject("p\(number)")
            }
            #expect(error?.word == .unavailable && error?.message.contains("deleted") == true)
        }
        await #expect(throws: MartletError.self) { try await broker.checkWrites() }
        #expect(try broker.project("tides").id == "tides")
        try await broker.close()
    }

    @Test("OPS-12 asking whether the broker takes changes writes one, at most once a second")
    func checksWrites() async throws {
        let folder = TemporaryFolder()
        let broker = try await Broker.open(BrokerConfiguration(folder: folder.path))
        func lastChange() throws -> Date? {
            let file = folder.path + "/data.mdb"
            return try FileManager.default.attributesOfItem(atPath: file)[.modificationDate]
                as? Date
        }
        let before = try lastChange()
        try await Task.sleep(for: .milliseconds(50))
        try await broker.checkWrites()
        let after = try lastChange()
        #expect(before != after)
        try await Task.sleep(for: .milliseconds(50))
        try await broker.checkWrites()
        #expect(try lastChange() == after)
        try await broker.close()
        await #expect(throws: MartletError.self) { try await broker.checkWrites() }
    }

    @Test("FAN-6 who writes first and reads later gets every answer, and holds little memory")
    func answersLateReaders() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (peer, _) = try test.newDevice()
        nonisolated(unsafe) let writing = peer
        // 26 MB of PINGs, far more than all buffers of the kernel hold.
        let pings = 2_000_000
        let writer = Thread {
            var one = WireWriter()
            ClientFrame.ping(Ping(value: 1)).encode(into: &one)
            let block = [UInt8]((0..<1000).map { _ in one.bytes }.joined())
            for _ in 0..<pings / 1000 { try? writing.send(raw: block) }
        }
        // The kernel's buffers are full when nothing moves any more.
        usleep(1_000_000)
        try peer.discard(pings * 13)
        writer.join()
        try peer.roundTrip()
        try await test.broker.close()
    }

    @Test("NET-3 FAN-6 however many requests come at once, each is answered")
    func answersFloods() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (peer, _) = try test.newDevice()
        nonisolated(unsafe) let writing = peer
        let count = 200_000
        var request = WireWriter()
        ClientFrame.deviceTopics(
            DeviceTopicsRequest(operation: .subscribe, correlation: 1, topics: [])
        ).encode(into: &request)
        try peer.send(raw: request.bytes)
        var answer = WireWriter()
        try peer.next().encode(into: &answer)
        let block = [UInt8]((0..<1000).map { _ in request.bytes }.joined())
        let writer = Thread {
            for _ in 0..<count / 1000 { try? writing.send(raw: block) }
            writing.finish()
        }
        // Nothing is read until the broker has got what it takes.
        usleep(300_000)
        try peer.discard(count * answer.bytes.count)
        try peer.waitForEnd()
        writer.join()
        try await test.broker.close()
    }
}

/// Told once, asked by others.
private final class Flag: Sendable {
    private let value = Mutex(false)
    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
}
