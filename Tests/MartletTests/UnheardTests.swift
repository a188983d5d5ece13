// SPDX-License-Identifier: Apache-2.0
//
// Devices that say nothing after a message, and the question of the door to push services (NET-11, GW-11). Rests on
// Support.

import Glibc
import Martlet
import MartletBase
import MartletWire
import Testing

@Suite("Devices that say nothing", .timeLimit(.minutes(2)))
struct UnheardTests {
    @Test(
        "NET-11 GW-11 a device that answers nothing after a message loses its connection to a push service"
    )
    func unheard() async throws {
        let test = try await TestBroker.open(loops: 1)
        let projects = try test.broker.bridgedProjects()
        let number = try #require(projects.first { $0.id == TestBroker.project }).number
        // The last device has no address at a push service, so the door does not ask for it.
        let devices = try (0..<3).map { _ in try test.newDevice() }
        let (deaf, slow, other) = (devices[0].peer, devices[1].peer, devices[2].peer)
        let asked = [Ordinal(0), Ordinal(1)]
        // The message comes in a later second than HELLO.
        try await Task.sleep(for: .seconds(2))
        let sender = try test.sender()
        for (index, device) in devices.enumerated() {
            try sender.send(to: .token(device.credentials.token), n: "\(index)")
            #expect(try device.peer.number() == "\(index)")
        }
        var pings = 0
        #expect(test.broker.statistics.connectionCount == 4)
        while test.broker.statistics.connectionCount == 4 {
            try await Task.sleep(for: .milliseconds(100))
            _ = try await test.broker.answering(among: asked, of: number)
            while slow.hasMore(milliseconds: 0) {
                guard case .ping(let ping) = try slow.next() else { continue }
                pings += 1
                try slow.send(.pong(Pong(value: ping.value)))
            }
        }
        #expect(pings > 0)
        guard case .ping = try deaf.next() else {
            Issue.record("the silent device was not asked")
            return
        }
        try deaf.waitForEnd()
        #expect(!other.hasMore(milliseconds: 0))
        for peer in [slow, other] {
            try peer.send(.ping(Ping(value: 9)))
            guard case .pong = try peer.next() else {
                Issue.record("a living device lost its connection")
                return
            }
        }
        // A device that lives after all comes again, and gets its message again.
        #expect(try test.connect(devices[0].credentials).number() == "0")
        try await test.broker.close()
    }

    @Test(
        "NET-11 GW-11 a device that acknowledges keeps its connection, however often it gets something"
    )
    func heard() async throws {
        let test = try await TestBroker.open(loops: 1)
        let projects = try test.broker.bridgedProjects()
        let number = try #require(projects.first { $0.id == TestBroker.project }).number
        let devices = try (0..<20).map { _ in try test.newDevice() }
        let asked = devices.indices.map { Ordinal(UInt32($0)) }
        let sender = try test.sender()
        // Each device gets a message a second, each at another time of the second: one of them gets its message first in
        // every second of the loop, before the loop looks who was heard.
        let clock = ContinuousClock()
        let began = clock.now
        for step in 0..<(14 * devices.count) {
            try await clock.sleep(until: began + .milliseconds(50) * step)
            let device = devices[step % devices.count]
            try sender.send(to: .token(device.credentials.token), n: "\(step)")
            var frame = try device.peer.next()
            while true {
                // On a busy machine a device may be asked, and answers.
                if case .ping(let ping) = frame {
                    try device.peer.send(.pong(Pong(value: ping.value)))
                } else if case .deliver(let message) = frame {
                    try device.peer.acknowledge(through: message.streamID)
                    break
                }
                frame = try device.peer.next()
            }
            _ = try await test.broker.answering(among: asked, of: number)
        }
        #expect(test.broker.statistics.connectionCount == devices.count + 1)
        try await test.broker.close()
    }
}
