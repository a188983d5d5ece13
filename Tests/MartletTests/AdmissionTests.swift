// SPDX-License-Identifier: Apache-2.0
//
// Who may register (REG-7), apps of administrators (REG-8) and the topics that devices choose (TOP-10, TOP-11), over
// real sockets. Rests on Support.

import Martlet
import MartletWire
import Testing

@Suite("Who may register, over the wire", .timeLimit(.minutes(2)))
struct AdmissionTests {
    private static let app = "com.example.tides"

    /// The answer to a new device's HELLO: nil for WELCOME.
    private func refusal(
        _ test: TestBroker, _ credential: RegistrationCredential, in project: String = "keyed",
        app: String = Self.app
    ) throws -> ErrorWord? {
        let peer = try test.peer()
        try peer.send(
            .hello(
                .newDevice(
                    projectID: project, appName: app, platform: .android, credential: credential)))
        switch try peer.next() {
        case .welcome: return nil
        case .error(let frame):
            try peer.waitForEnd()
            return frame.error.word
        case let frame: throw Peer.Failure.unexpected(frame)
        }
    }

    @Test("REG-7 a new project takes devices with its registration key, until the key is revoked")
    func key() async throws {
        let test = try await TestBroker.open()
        _ = try await test.broker.createProject("keyed")
        let key = try await test.broker.createRegistrationKey(named: "app", in: "keyed")
        #expect(try refusal(test, .key(key.text)) == nil)
        // An older client sends no credential at all.
        #expect(try refusal(test, .none) == .permissionDenied)
        #expect(try refusal(test, .key(key.text + "x")) == .permissionDenied)
        #expect(try refusal(test, .key("")) == .permissionDenied)
        #expect(try refusal(test, .ticket("a.b.c")) == .permissionDenied)
        #expect(try refusal(test, .key(test.serverKey)) == .permissionDenied)
        #expect(try refusal(test, .key(key.text), in: "none") == .permissionDenied)
        // The key authorises nothing but registering.
        let sender = try test.peer()
        try sender.send(.hello(.sender(projectID: "keyed", serverKey: key.text)))
        #expect(try sender.error().word == .unauthenticated)
        #expect(try test.broker.project("keyed").instanceCount == 1)
        try await test.broker.revokeRegistrationKey(key.id, in: "keyed")
        #expect(try refusal(test, .key(key.text)) == .permissionDenied)
        #expect(
            try await test.broker.registrationKeys(in: "keyed").filter { $0.id == key.id }.map(
                \.isRevoked)
                == [true])
        #expect(try await test.broker.apps(in: "keyed").map(\.name) == [Self.app])
        try await test.broker.close()
    }

    @Test("REG-7 a ticket is checked only where the project wants tickets")
    func ticketElsewhere() async throws {
        let test = try await TestBroker.open()
        #expect(try refusal(test, .ticket("no ticket"), in: TestBroker.project) == nil)
        try await test.broker.createProject("keyed")
        try await test.broker.setPolicies(registration: .ticket, in: "keyed")
        try await test.broker.addTicketSecret(
            [UInt8](repeating: 7, count: 32), id: "k1", in: "keyed")
        for text in ["", "a.b.c", "e30.e30.AAAA", String(repeating: "A", count: 9000)] {
            #expect(try refusal(test, .ticket(text)) == .permissionDenied)
        }
        #expect(try refusal(test, .none) == .permissionDenied)
        try await test.broker.setPolicies(registration: .open, in: "keyed")
        try await test.broker.createApp(Self.app, on: .android, in: "keyed")
        #expect(try refusal(test, .none) == nil)
        #expect(try refusal(test, .none, app: "com.hostile") == .permissionDenied)
        #expect(
            try await test.broker.policies(of: "keyed")
                == ProjectPolicies(registration: .open, topics: .all))
        try await test.broker.close()
    }

    @Test("REG-7 an app on a shared connection presents its own credential")
    func sharedConnection() async throws {
        let test = try await TestBroker.open()
        _ = try await test.broker.createProject("keyed")
        let key = try await test.broker.createRegistrationKey(named: "app", in: "keyed")
        let shared = try SharedPeer(test)
        try shared.send(
            .hello(
                .newDevice(
                    projectID: "keyed", appName: Self.app, platform: .android,
                    credential: .key(key.text))), on: 1)
        guard case .welcome = try shared.next(on: 1) else {
            Issue.record("the app is not welcomed")
            return
        }
        try shared.send(
            .hello(.newDevice(projectID: "keyed", appName: Self.app, platform: .web)), on: 2)
        guard case .error(let frame) = try shared.next(on: 2) else {
            Issue.record("the app without a key is not refused")
            return
        }
        #expect(frame.error.word == .permissionDenied)
        try await test.broker.close()
    }

    @Test(
        "REG-8 deleting an app ends its connections and frees its place; other apps notice nothing")
    func deleteApp() async throws {
        let test = try await TestBroker.open()
        let doomed = try (0..<20).map { _ in try test.newDevice(app: "a.b") }
        let (other, _) = try test.newDevice()
        try await test.broker.deleteApp("a.b", on: .android, in: TestBroker.project)
        for (peer, _) in doomed { try peer.waitForEnd() }
        try other.roundTrip()
        while try test.broker.project(TestBroker.project).instanceCount > 1 { await Task.yield() }
        let left = try await test.broker.apps(in: TestBroker.project)
        #expect(!left.contains { $0.name == "a.b" && $0.platform == .android })
        #expect(left.first { $0.name == Self.app && $0.platform == .android }?.instanceCount == 1)
        try await test.broker.createApp("a.b", on: .android, in: TestBroker.project)
        _ = try test.newDevice(app: "a.b")
        try await test.broker.close()
    }

    @Test("TOP-10 a device's subscription outside the policy is refused with PERMISSION_DENIED")
    func topicPolicy() async throws {
        let test = try await TestBroker.open()
        let (device, _) = try test.newDevice()
        try await test.broker.setPolicies(
            topics: .prefixes(["news."]), in: TestBroker.project)
        try device.send(
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: .subscribe, correlation: 7, topics: ["news.a", "secret"])))
        guard case .topicResult(let result) = try device.next() else {
            Issue.record("no result")
            return
        }
        #expect(result.successes == 1)
        #expect(result.failures == [.init(index: 1, word: .permissionDenied)])
        try await test.broker.close()
    }

    @Test("TOP-11 a hostile device's changes leave the project's to the others")
    func hostileDevice() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open {
            $0.limits.topicChangesPerSecond = 300
            $0.limits.deviceTopicBurst = 100
            $0.clock = { clock.instant }
        }
        let (hostile, _) = try test.newDevice()
        var refusedCount = 0
        for correlation in 1...50 as ClosedRange<UInt32> {
            try hostile.send(
                .deviceTopics(
                    DeviceTopicsRequest(
                        operation: .subscribe, correlation: correlation,
                        topics: Array(repeating: "spam", count: 50))))
            if case .error(let frame) = try hostile.next() {
                #expect(frame.error.word == .quotaExceeded)
                #expect(frame.error.retryDelayMilliseconds == 50_000)
                refusedCount += 1
            }
        }
        #expect(refusedCount == 48)
        let (honest, _) = try test.newDevice()
        try honest.send(
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: .subscribe, correlation: 1,
                    topics: (0..<100).map { "t\($0)" })))
        guard case .topicResult(let result) = try honest.next() else {
            Issue.record("the honest device is refused")
            return
        }
        #expect(result.successes == 100)
        try await test.broker.close()
    }
}
