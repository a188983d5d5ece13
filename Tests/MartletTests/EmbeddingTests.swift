// SPDX-License-Identifier: Apache-2.0
//
// The embedding API (EMB-1), the client library against a real broker, and the peers written in
// Python from the protocol's document.

import Foundation
import Martlet
import MartletClient
import MartletWire
import TestSupport
import Testing

@Suite("Embedding")
struct EmbeddingTests {
    @Test(
        "EMB-1 CON-8 CON-9 TOP-9 a broker without connections: projects, registration, topics, sends, questions"
    )
    func embeds() async throws {
        let folder = TemporaryFolder()
        let broker = try await Broker.open(BrokerConfiguration(folder: folder.path))
        #expect(broker.port == nil)
        let project = try await broker.createProject("tides", conditionTopicsMax: 6).summary
        #expect(String(project.senderID).count == 12)
        await #expect(throws: MartletError.self) { try await broker.createProject("tides") }
        await #expect(throws: MartletError.self) { try await broker.createProject("Tides") }

        var tokens: [String] = []
        for index in 0..<12 {
            let platform = Platform.allCases[index % 3]
            let credentials = try await broker.register(
                app: "com.example.\(platform.name)", platform: platform, in: "tides")
            tokens.append(credentials.token)
        }
        let even = tokens.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        let change = try await broker.subscribe(
            even + ["?", String(repeating: "A", count: 32)], to: "/topics/even", in: "tides")
        #expect(change.successCount == 6)
        #expect(change.failures.map(\.index) == [6, 7])
        #expect(change.failures.map(\.word) == [.invalidArgument, .notFound])
        let audience = try broker.audience(of: "!('even' in topics)", in: "tides")
        #expect(audience.total == 6)
        #expect(audience.perPlatform == [.android: 2, .apple: 2, .web: 2])
        #expect(audience.perApp.count == 3)

        var outside: [String] = []
        var next: String? = ""
        while let after = next {
            let page = try broker.tokens(
                matching: "!('even' in topics)", in: "tides", after: after, limit: 4)
            outside += page.entries
            next = page.next
        }
        #expect(outside.count == 6 && Set(outside) == Set(tokens).subtracting(even))

        let explanation = try broker.explain(
            "'even' in topics || 'odd' in topics && 'x' in topics", in: "tides")
        #expect(explanation.parts.first?.count == 0)
        #expect(explanation.advice.count == 3)

        let message = Message(notification: .init(title: "Storm"), data: ["level": "3"])
        let receipt = try await broker.send(
            OutgoingMessage(to: .topic("even"), message), in: "tides")
        #expect(receipt.messageID == "projects/tides/messages/1")
        #expect(receipt.recipientCount == 6)
        let none = try await broker.send(
            OutgoingMessage(to: .topic("nobody"), message), in: "tides")
        #expect(none.recipientCount == 0)

        let topics = try broker.topics(in: "tides").entries
        #expect(topics.map(\.name) == ["even"] && topics.map(\.subscriberCount) == [6])
        #expect(try broker.topics(of: tokens[0], in: "tides").entries.count == 1)
        var found: [String] = []
        var cursor: String? = ""
        while let after = cursor {
            let page = try broker.subscribers(of: "even", in: "tides", after: after, limit: 4)
            found += page.entries
            cursor = page.next
        }
        #expect(Set(found) == Set(even) && found.count == 6)
        _ = try await broker.unsubscribe(even, from: "even", in: "tides")
        #expect(try broker.topics(in: "tides").entries.isEmpty)
        try await broker.unregister(tokens[0], in: "tides")
        #expect(try broker.project("tides").instanceCount == 11)
        try await broker.close()
        await #expect(throws: MartletError.self) { try await broker.createProject("late") }
    }

    @Test("EMB-1 several brokers live in one process, each with its own everything")
    func livesBesideOthers() async throws {
        let first = try await TestBroker.open()
        let second = try await TestBroker.open()
        let (device, credentials) = try first.newDevice()
        #expect(throws: MartletError.self) { try second.connect(credentials) }
        let sender = try second.sender()
        #expect(throws: MartletError.self) { try sender.send(to: .token(credentials.token)) }
        try await second.broker.close()
        try device.roundTrip()
        try await first.broker.close()
    }

    @Test("a folder has one broker at a time")
    func isAlone() async throws {
        let test = try await TestBroker.open()
        await #expect(throws: (any Error).self) {
            try await Broker.open(BrokerConfiguration(folder: test.folder.path))
        }
        let (device, _) = try test.newDevice()
        try device.roundTrip()
        try await test.broker.close()
        let again = try await Broker.open(BrokerConfiguration(folder: test.folder.path))
        try await again.close()
    }

    @Test("EMB-1 a closed broker's port is free at once")
    func freesItsPort() async throws {
        let port = try FreePort.claim()
        let test = try await TestBroker.open(loops: 2) { $0.address!.port = port }
        try await test.broker.close()
        for _ in 0..<20 {
            let again = try await TestBroker.open(in: test.folder) { $0.address!.port = port }
            try await again.broker.close()
        }
    }

    @Test("DEV-1 DEV-3 the client library registers, receives once in order, and comes back")
    func serves() async throws {
        let test = try await TestBroker.open()
        let port = Int(test.broker.port!)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: port, projectID: TestBroker.project,
            appName: "com.example.tides", platform: .apple)
        let device = MartletDevice(host: "127.0.0.1", port: port, credentials: credentials)
        try await device.subscribe(toTopic: "tides")
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: port, projectID: TestBroker.project,
            serverKey: test.serverKey)
        for number in 0..<50 {
            let result = try await sender.send(
                Message(data: ["n": "\(number)"]), to: .condition("'tides' in topics"))
            #expect(result.recipientCount == 1)
        }
        var received: [String] = []
        for try await message in device.messages {
            received.append(message["n"] ?? "")
            if received.count == 50 { break }
        }
        #expect(received == (0..<50).map { "\($0)" })
        await device.close()
        await sender.close()
        try await test.broker.close()
    }

    @Test(
        "NET-1 devices and senders written in Python from the document alone",
        arguments: ["device_and_sender.py", "groups_upstream_receipts.py"])
    func speaksPython(round: String) async throws {
        let test = try await TestBroker.open()
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", "-B", tests.appending(path: "Python/\(round)").path,
            "--host", "127.0.0.1", "--port", "\(test.broker.port!)", "--project",
            TestBroker.project, "--server-key", test.serverKey,
        ]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(
            decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
        try await test.broker.close()
    }

    @Test("EMB-1 the broker serves every request that the wire has")
    func servesAll() { #expect(FrameType.servesAllRequests) }

    /// Requests of a sender, with their answers as text.
    private func answers(_ sender: some SenderInterface, _ tokens: [String]) async throws
        -> [String]
    {
        let group = try await sender.createGroup(named: "phones", tokens: [tokens[0]])
        let sent = try await sender.send(Message(data: ["n": "1"]), to: .topic("even"))
        let condition = "'even' in topics || !('odd' in topics && 'even' in topics)"
        let report = try await sender.report(of: sent.messageID ?? "")
        var answers = [
            "\(try await sender.subscribe(tokens + ["?"], to: "even"))",
            "\(try await sender.unsubscribe([tokens[1]], from: "even"))",
            "\(try await sender.topics())", "\(try await sender.topics(of: tokens[0]))",
            "\(try await sender.subscribers(of: "even", limit: 1))",
            "\(try await sender.tokens(matching: condition, after: "1"))",
            "\(try await sender.explain(condition))", "\(sent.recipientCount)",
            "\(report.counts.targeted)", "\(try await sender.fanouts().entries)",
            "\(try await sender.notReceived(sent.messageID ?? "").entries)",
            "\(try await sender.quotas())",
            "\(try await sender.groups().entries.map(\.memberCount))",
            "\(try await sender.group(named: "phones") == group)",
        ]
        let audience = try await sender.audience(of: condition)
        answers += ["\(audience.total)", "\(audience.perPlatform)", "\(audience.perApp)"]
        for change in [
            { _ = try await sender.cancel("77") }, { try await sender.unregister("?") },
            { _ = try await sender.topics(limit: 0) }, { _ = try await sender.topics(limit: 1001) },
            { _ = try await sender.tokens(matching: "'a' in", limit: -1) },
        ] as [() async throws -> Void] {
            do {
                try await change()
                answers.append("no refusal")
            } catch { answers.append("\(error)") }
        }
        try await sender.removeFromGroup(named: "phones", key: group.key, tokens: [tokens[0]])
        _ = try await sender.unsubscribe(tokens, from: "even")
        return answers
    }

    @Test("EMB-1 a sender in the process and a sender on a connection get the same answers")
    func sameSenders() async throws {
        let test = try await TestBroker.open { $0.limits.topicChangesPerSecond = 0 }
        var tokens: [String] = []
        for _ in 0..<3 { tokens.append(try test.newDevice().credentials.token) }
        let remote = MartletSender(
            host: "127.0.0.1", port: Int(test.broker.port!), projectID: TestBroker.project,
            serverKey: test.serverKey)
        let here = try await answers(test.broker.sender(in: TestBroker.project), tokens)
        #expect(try await answers(remote, tokens) == here)
        await remote.close()
        try await test.broker.close()
    }

    /// Requests of an administrator, with their answers as text.
    private func answers(
        _ administrator: some AdministratorInterface, project id: String
    ) async throws -> [String] {
        let project = try await administrator.createProject(id, conditionTopicsMax: 7).summary
        let key = try await administrator.createServerKey(named: "büro", in: id)
        let keys = try await administrator.serverKeys(in: id)
        #expect(keys.map(\.id) == [key.id] && key.text.hasPrefix(key.id + "."))
        try await administrator.revokeServerKey(key.id, in: id)
        let changed = try await administrator.changeProject(id, weight: 3, overload: .refuse)
        var answers = [
            "\(project.conditionTopicsMax)", "\(changed.weight) \(changed.overload)",
            "\(try await administrator.changeLimits([.init(.groupMembers, to: 9)], in: id))",
            "\(try await administrator.changeLimits([.init(.groupMembers, to: nil)], in: id))",
            "\(try await administrator.limits(of: id))",
            "\(keys.map(\.name))", "\(try await administrator.serverKeys(in: id)[0].isRevoked)",
            "\(try await administrator.serviceAccounts(in: id))",
            "\(try await administrator.fanouts().entries)",
            "\(try await administrator.status().connectionCount > 0)",
            "\(try await administrator.projects(after: "tid", limit: 1).entries.map(\.id))",
        ]
        for change in [
            { try await administrator.createProject(id).summary },
            { try await administrator.createProject("new", conditionTopicsMax: -1).summary },
            { try await administrator.createProject("new", conditionTopicsMax: 0).summary },
            { try await administrator.changeProject(id, weight: 1001) },
            { try await administrator.changeProject("nowhere") },
        ] as [() async throws -> ProjectSummary] {
            do { answers.append("\(try await change().weight)") } catch {
                answers.append("\(error)")
            }
        }
        return answers
    }

    @Test("EMB-1 an administrator in the process and one on a connection get the same answers")
    func sameAdministrators() async throws {
        let test = try await TestBroker.open()
        let (device, _) = try test.newDevice()
        let remote = MartletAdministrator(
            host: "127.0.0.1", port: Int(test.broker.port!),
            administratorKey: test.broker.administratorKey)
        try await remote.connect()
        let here = try await answers(test.broker, project: "here")
        #expect(try await answers(remote, project: "there") == here)
        device.close()
        await remote.close()
        try await test.broker.close()
    }

    @Test("EMB-1 OPS-8 the trial of io_uring interrupts no blocking call of the embedding server")
    func interruptsNoCall() async throws {
        let folder = TemporaryFolder()
        var configuration = BrokerConfiguration(folder: folder.path)
        configuration.transport = nil
        let trial = configuration
        // A task may go on with another thread after each suspension; the calls belong to one thread.
        let failed = await withCheckedContinuation { done in
            Foundation.Thread {
                done.resume(returning: Result { try Self.receiveAfterTrials(trial) })
            }.start()
        }
        #expect(try failed.get() == [])
    }

    /// Waits for bytes that never come, after each of 20 trials.
    /// - Returns: the errors other than the end of the wait.
    private static func receiveAfterTrials(_ configuration: BrokerConfiguration) throws -> [Int32] {
        var ends: [Int32] = [-1, -1]
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
        defer { for end in ends { close(end) } }
        // An interrupted call with a limit of time returns; without a limit the kernel would begin the call anew.
        var limit = timeval(tv_sec: 0, tv_usec: 50_000)
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var errors: [Int32] = []
        for _ in 0..<20 {
            _ = try configuration.chosenTransport()
            var byte: UInt8 = 0
            if recv(ends[0], &byte, 1, 0) >= 0 || errno != EAGAIN { errors.append(errno) }
        }
        return errors
    }
}
