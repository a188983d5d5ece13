// SPDX-License-Identifier: Apache-2.0
//
// The client library's apps that share a connection, against a real broker (NET-4).

import Martlet
import MartletClient
import TestSupport
import Testing

private func options(_ change: (inout DeviceOptions) -> Void = { _ in }) -> DeviceOptions {
    var options = DeviceOptions()
    options.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
    options.acknowledgementDelay = .zero
    change(&options)
    return options
}

/// Two apps of two projects on one connection.
private struct World {
    static let other = "weather"
    let test: TestBroker
    let connection: DeviceConnection
    let tides: MartletDevice
    let weather: MartletDevice

    static func open(
        _ change: (inout DeviceOptions) -> Void = { _ in }
    ) async throws -> World {
        // A test may open the broker again.
        let claimed = try FreePort.claim()
        let test = try await TestBroker.open { $0.address!.port = claimed }
        try await test.broker.createOpenProject(other)
        let port = Int(claimed)
        let connection = DeviceConnection(host: "127.0.0.1", port: port)
        var devices: [MartletDevice] = []
        for project in [TestBroker.project, other] {
            let credentials = try await MartletDevice.register(
                host: "127.0.0.1", port: port, projectID: project, appName: "com.example",
                platform: .apple)
            devices.append(
                MartletDevice(on: connection, credentials: credentials, options: options(change)))
        }
        return World(
            test: test, connection: connection, tides: devices[0], weather: devices[1])
    }

    func send(_ n: String, to device: MartletDevice, with broker: Broker? = nil) async throws {
        let credentials = device.credentials
        _ = try await (broker ?? test.broker).send(
            OutgoingMessage(to: .token(credentials.token), Message(data: ["n": n])),
            in: credentials.projectID)
    }
}

@Suite("The client library's shared connection", .timeLimit(.minutes(3)))
struct DeviceConnectionTests {
    @Test("NET-4 DEV-3 two apps have one connection, and each gets its own messages")
    func shares() async throws {
        let world = try await World.open()
        try await world.tides.connect()
        try await world.weather.connect()
        #expect(await world.connection.appCount == 2)
        try await world.tides.subscribe(toTopic: "high-water")
        try await world.weather.subscribe(toTopic: "rain")
        var tides = world.tides.messages.makeAsyncIterator()
        var weather = world.weather.messages.makeAsyncIterator()
        for number in 0..<50 {
            try await world.send("tides \(number)", to: world.tides)
            try await world.send("weather \(number)", to: world.weather)
        }
        for number in 0..<50 {
            #expect(try await tides.next()?["n"] == "tides \(number)")
            #expect(try await weather.next()?["n"] == "weather \(number)")
        }
        #expect(try await world.weather.topics().entries.map(\.name) == ["rain"])
        // One leaves, and the other goes on.
        try await world.tides.unregister()
        #expect(try await tides.next() == nil)
        try await world.send("on", to: world.weather)
        #expect(try await weather.next()?["n"] == "on")
        await world.weather.close()
        try await world.test.broker.close()
    }

    @Test("NET-4 an app that is replaced ends, and the other goes on")
    func replaced() async throws {
        let world = try await World.open()
        try await world.tides.connect()
        try await world.weather.connect()
        let elsewhere = MartletDevice(
            host: "127.0.0.1", port: Int(world.test.broker.port!),
            credentials: world.tides.credentials, options: options())
        try await elsewhere.connect()
        var tides = world.tides.messages.makeAsyncIterator()
        await #expect { _ = try await tides.next() } throws: {
            ($0 as? MartletError)?.word == .replaced
        }
        var weather = world.weather.messages.makeAsyncIterator()
        try await world.send("on", to: world.weather)
        #expect(try await weather.next()?["n"] == "on")
        #expect(await world.connection.appCount == 1)
        await elsewhere.close()
        await world.weather.close()
        try await world.test.broker.close()
    }

    @Test("DEV-1 DEV-3 after an outage all apps attach again, and each catches up, once")
    func reconnects() async throws {
        let world = try await World.open()
        var tides = world.tides.messages.makeAsyncIterator()
        var weather = world.weather.messages.makeAsyncIterator()
        try await world.tides.connect()
        try await world.weather.connect()
        for device in [world.tides, world.weather] {
            for number in 1...3 { try await world.send("\(number)", to: device) }
        }
        for number in 1...2 { #expect(try await tides.next()?["n"] == "\(number)") }
        #expect(try await weather.next()?["n"] == "1")
        let port = world.test.broker.port!
        try await world.test.broker.close()
        let again = try await TestBroker.open(in: world.test.folder) { $0.address!.port = port }
        for device in [world.tides, world.weather] {
            try await world.send("4", to: device, with: again.broker)
        }
        for number in 3...4 { #expect(try await tides.next()?["n"] == "\(number)") }
        for number in 2...4 { #expect(try await weather.next()?["n"] == "\(number)") }
        #expect(await world.connection.appCount == 2)
        await world.tides.close()
        await world.weather.close()
        try await again.broker.close()
    }

    @Test("DEV-3 an application that takes nothing holds up no other, and gets all when it does")
    func slow() async throws {
        let world = try await World.open { $0.bufferedMessagesMax = 4 }
        try await world.tides.connect()
        var weather = world.weather.messages.makeAsyncIterator()
        try await world.weather.connect()
        for number in 0..<300 { try await world.send("\(number)", to: world.tides) }
        for number in 0..<100 {
            try await world.send("\(number)", to: world.weather)
            #expect(try await weather.next()?["n"] == "\(number)")
        }
        #expect(await world.tides.bufferedMessages <= 4 + 2 * 100)
        var tides = world.tides.messages.makeAsyncIterator()
        for number in 0..<300 { #expect(try await tides.next()?["n"] == "\(number)") }
        await world.tides.close()
        await world.weather.close()
        try await world.test.broker.close()
    }

    @Test("DEV-1 DEV-2 apps keep themselves in stores of their own and come back with them")
    func keeps() async throws {
        let world = try await World.open()
        let folder = TemporaryFolder()
        for run in 1...2 {
            for project in [TestBroker.project, World.other] {
                let device = try await MartletDevice.open(
                    on: world.connection, projectID: project, appName: "com.example.kept",
                    platform: .android, store: DeviceStateFile(path: "\(folder.path)-\(project)"),
                    options: options())
                if run == 1 { try await device.subscribe(toTopic: "kept") }
                #expect(try await device.topics().entries.map(\.name) == ["kept"])
                await device.close()
            }
        }
        #expect(try world.test.broker.audience(of: "'kept' in topics", in: World.other).total == 1)
        try await world.test.broker.close()
    }
}
