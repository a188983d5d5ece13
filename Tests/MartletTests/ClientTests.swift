// SPDX-License-Identifier: Apache-2.0
//
// The client library's device against a real broker: its token, its topics and its heartbeat, over
// several connections and several runs of an application.

import Martlet
import MartletClient
import MartletWire
import TestSupport
import Testing

private func options(_ change: (inout DeviceOptions) -> Void = { _ in }) -> DeviceOptions {
    var options = DeviceOptions()
    options.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(4))
    change(&options)
    return options
}

private func device(_ test: TestBroker, _ known: InstanceCredentials) -> MartletDevice {
    MartletDevice(
        host: "127.0.0.1", port: Int(test.broker.port!),
        credentials: DeviceCredentials(
            projectID: TestBroker.project, token: known.token, deviceKey: known.deviceKey),
        options: options())
}

private func open(_ test: TestBroker, _ file: DeviceStateFile) async throws -> MartletDevice {
    try await MartletDevice.open(
        host: "127.0.0.1", port: Int(test.broker.port!), projectID: TestBroker.project,
        appName: "com.example.tides", platform: .apple, store: file, options: options())
}

@Suite("The client library's device", .timeLimit(.minutes(3)))
struct ClientTests {
    @Test("NET-7 a device and a sender try the addresses of their broker in turn")
    func fallbacks() async throws {
        let test = try await TestBroker.open(loops: 1)
        let closed = Int(try FreePort.claim())
        let fallbacks = [
            BrokerAddress(host: "127.0.0.1", port: closed),
            BrokerAddress(host: "127.0.0.1", port: Int(test.broker.port!)),
        ]
        let known = try await MartletDevice.register(
            host: "127.0.0.1", port: closed, projectID: TestBroker.project,
            appName: "com.example.tides", platform: .apple,
            options: options { $0.fallbacks = fallbacks })
        let device = MartletDevice(
            host: "127.0.0.1", port: closed, credentials: known,
            options: options { $0.fallbacks = fallbacks })
        let sender = try test.sender()
        try sender.send(to: .token(known.token), n: "1")
        var messages = device.messages.makeAsyncIterator()
        #expect(try await messages.next()?["n"] == "1")
        await device.close()
        #expect(BrokerAddress.fallbacks(of: "h").map(\.port) == [443, 5229, 5230])
        try await test.broker.close()
    }

    @Test(
        "DEV-1 REG-4 a device that never heard the answer to ROTATE learns its token from WELCOME")
    func lostAnswer() async throws {
        let test = try await TestBroker.open(loops: 2)
        let (peer, credentials) = try test.newDevice()
        try peer.send(.rotate(RotateRequest(correlation: 1)))
        guard case .rotated(let rotated) = try peer.next() else {
            Issue.record("ROTATED expected")
            return
        }
        peer.close()
        let sender = try test.sender()
        #expect(throws: MartletError.self) { try sender.send(to: .token(credentials.token)) }
        try sender.send(to: .token(rotated.token), n: "1")

        let device = device(test, credentials)
        var tokens = await device.registrationTokens().makeAsyncIterator()
        #expect(await tokens.next() == credentials.token)
        var messages = device.messages.makeAsyncIterator()
        #expect(try await messages.next()?["n"] == "1")
        #expect(await tokens.next() == rotated.token)
        #expect(device.credentials.token == rotated.token)
        let next = try await device.rotateToken()
        #expect(next != rotated.token)
        try sender.send(to: .token(next), n: "2")
        #expect(try await messages.next()?["n"] == "2")
        await device.close()

        // The key is wanted with a former token as with the present one.
        for token in [credentials.token, rotated.token, next] {
            let stranger = InstanceCredentials(token: token, deviceKey: test.serverKey)
            #expect(throws: MartletError.self) { try test.connect(stranger) }
        }
        try await test.broker.unregister(next, in: TestBroker.project)
        for token in [credentials.token, rotated.token, next] {
            let gone = InstanceCredentials(token: token, deviceKey: credentials.deviceKey)
            #expect(throws: MartletError.self) { try test.connect(gone) }
        }
        try await test.broker.close()
    }

    @Test(
        "DEV-1 a token that was given while the device was away is in its file after its next run")
    func rotatedByOthers() async throws {
        let test = try await TestBroker.open()
        let folder = TemporaryFolder()
        let file = DeviceStateFile(path: folder.path + ".json")
        let first = try await open(test, file)
        await first.close()
        var token = first.credentials.token
        for _ in 0..<3 {
            token = try await test.broker.rotateToken(token, in: TestBroker.project)
        }
        let second = try await open(test, file)
        #expect(second.credentials.token == first.credentials.token)
        try await second.connect()
        #expect(second.credentials.token == token)
        await second.close()
        #expect(try file.load()?.credentials.token == token)
        try file.remove()
        try await test.broker.close()
    }

    @Test(
        "DEV-2 topics that were asked for are ensured at every start, also where the broker lost them"
    )
    func ensured() async throws {
        let test = try await TestBroker.open()
        let folder = TemporaryFolder()
        let file = DeviceStateFile(path: folder.path + ".json")
        let first = try await open(test, file)
        for topic in ["a", "b"] { try await first.subscribe(toTopic: topic) }
        try await first.unsubscribe(fromTopic: "b")
        await first.close()
        let token = first.credentials.token
        _ = try await test.broker.unsubscribe([token], from: "a", in: TestBroker.project)
        _ = try await test.broker.subscribe([token], to: "b", in: TestBroker.project)
        #expect(try file.load()?.topics == AskedTopics(subscriptions: ["a"]))

        let second = try await open(test, file)
        try await second.connect()
        // What is done is forgotten: only what is to last is ensured.
        while try await second.topics().entries.count < 2 { await Task.yield() }
        await second.close()
        try file.remove()
        try await test.broker.close()
    }

    @Test(
        "DEV-5 NET-2 a device that is silent by itself stays connected to a broker that bears three seconds of it, and learns"
    )
    func heartbeat() async throws {
        let test = try await TestBroker.open { $0.idleSeconds = 3 }
        let (peer, credentials) = try test.newDevice()
        peer.close()
        let device = MartletDevice(
            host: "127.0.0.1", port: Int(test.broker.port!),
            credentials: DeviceCredentials(
                projectID: TestBroker.project, token: credentials.token,
                deviceKey: credentials.deviceKey),
            options: options {
                $0.heartbeat.shortest = .milliseconds(10)
                $0.heartbeat.first = .milliseconds(20)
                // A device that loses its connection is not seen again.
                $0.backoff = Backoff(base: .seconds(3600), cap: .seconds(3600))
            })
        try await device.connect()
        while await device.heartbeat < .seconds(2) {
            try await Task.sleep(for: .milliseconds(10))
        }
        let sender = try test.sender()
        try sender.send(to: .token(credentials.token), n: "still there")
        var messages = device.messages.makeAsyncIterator()
        #expect(try await messages.next()?["n"] == "still there")
        await device.close()
        try await test.broker.close()
    }
}
