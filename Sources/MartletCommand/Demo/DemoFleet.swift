// SPDX-License-Identifier: Apache-2.0
//
// The demo's devices. Each device registers, connects over its own socket, and records the application's messages.
// Rests on MartletDevice and DemoInbox.

import Martlet
import MartletClient
import Synchronization

final class DemoFleet: Sendable {
    /// Devices at work at a time, connecting or asking. In an emulator 250 wait for each other until it is too late.
    static let waveWidth = 100
    /// Attempts of a registration. On a slow machine some of a wave are not answered in time.
    static let registrationAttemptsMax = 5

    let plan: DemoPlan
    let port: Int
    let inbox: DemoInbox
    private let project: String
    private let options: DeviceOptions
    private let credentials: Mutex<[DeviceCredentials?]>
    private let connected: Mutex<[MartletDevice?]>
    private let unconfirmed: Mutex<[[UInt64]]>

    init(plan: DemoPlan, project: String, port: Int, inbox: DemoInbox, options: DeviceOptions) {
        self.plan = plan
        self.project = project
        self.options = options
        self.port = port
        self.inbox = inbox
        let count = plan.devices.count
        credentials = Mutex(Array(repeating: nil, count: count))
        connected = Mutex(Array(repeating: nil, count: count))
        unconfirmed = Mutex(Array(repeating: [], count: count))
    }

    /// Makes a fleet of these devices at another broker of the data folder, without TLS.
    func moved(to port: Int) -> DemoFleet {
        var options = options
        options.encryption = nil
        let fleet = DemoFleet(
            plan: plan, project: project, port: port, inbox: DemoInbox(stepCount: 0),
            options: options)
        let known = credentials.withLock { $0 }
        let kept = unconfirmed.withLock { $0 }
        fleet.credentials.withLock { $0 = known }
        fleet.unconfirmed.withLock { $0 = kept }
        return fleet
    }

    var tokens: [String] { credentials.withLock { $0.map { $0?.token ?? "" } } }

    func register(_ progress: Progress) async throws {
        try await inWaves(Array(plan.devices.indices), progress) { index in
            let device = self.plan.devices[index]
            let credentials = try await self.register(device)
            self.credentials.withLock { $0[index] = credentials }
        }
    }

    private func register(_ device: DemoPlan.Device) async throws -> DeviceCredentials {
        var attempts = 0
        while true {
            do {
                return try await MartletDevice.register(
                    host: "127.0.0.1", port: port, projectID: project, appName: device.app,
                    platform: device.platform, options: options)
            } catch let error as MartletError where error.word == .unavailable {
                attempts += 1
                guard attempts < Self.registrationAttemptsMax else { throw error }
                try await Task.sleep(for: .seconds(attempts))
            }
        }
    }

    func connect(_ indices: [Int], _ progress: Progress) async throws {
        try await inWaves(indices, progress) { index in
            guard let credentials = self.credentials.withLock({ $0[index] }) else { return }
            let device = MartletDevice(
                host: "127.0.0.1", port: self.port, credentials: credentials,
                unconfirmed: self.unconfirmed.withLock { $0[index] }, options: self.options)
            self.connected.withLock { $0[index] = device }
            let inbox = self.inbox
            Task {
                do {
                    for try await message in device.messages {
                        inbox.record(step: message["step"].flatMap { Int($0) }, device: index)
                    }
                } catch {
                    inbox.recordFailure("device \(index): \(error)")
                }
            }
            try await device.connect()
        }
    }

    func disconnect(_ indices: [Int]) async {
        for index in indices {
            guard let device = connected.withLock({ $0[index] }) else { continue }
            let kept = await device.unconfirmed
            await device.close()
            connected.withLock { $0[index] = nil }
            unconfirmed.withLock { $0[index] = kept }
        }
    }

    /// Subscribes each device to its planned topics among `topics`.
    func subscribe(to topics: [String], _ progress: Progress) async throws {
        try await inWaves(Array(plan.devices.indices), progress) { index in
            guard let device = self.connected.withLock({ $0[index] }) else { return }
            for topic in topics where self.plan.devices[index].topics.contains(topic) {
                try await device.subscribe(toTopic: topic)
            }
        }
    }

    private func inWaves(
        _ indices: [Int], _ progress: Progress,
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            var done = 0
            for (started, index) in indices.enumerated() {
                if started >= Self.waveWidth {
                    try await group.next()
                    done += 1
                    progress.show(done, of: indices.count)
                }
                group.addTask { try await body(index) }
            }
            try await group.waitForAll()
        }
        progress.end()
    }
}
