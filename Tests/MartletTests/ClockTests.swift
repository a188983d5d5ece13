// SPDX-License-Identifier: Apache-2.0
//
// A wall clock that is wrong by decades, as on a board without a battery before NTP has answered. Rests on TestBroker.

import Foundation
import Martlet
import Testing

@Suite("A clock before 1970", .timeLimit(.minutes(1)))
struct ClockTests {
    @Test(
        "TTL-3 what is accepted while the clock is before 1970 waits for its device, also when the clock is right again"
    )
    func running() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open(loops: 1) { $0.clock = { clock.instant } }
        let sender = try test.sender()
        let (device, credentials) = try test.newDevice()
        try sender.send(to: .token(credentials.token), n: "before")
        #expect(try device.number() == "before")
        let leap = clock.instant.millisecondsSince1970 / 1000 + 200_000_000
        clock.advance(seconds: -leap)
        #expect(clock.instant < Instant(millisecondsSince1970: 0))
        #expect(test.broker.now == Instant(millisecondsSince1970: 0))
        try sender.send(to: .token(credentials.token), n: "live", timeToLiveSeconds: 60)
        let live = try device.message()
        #expect(try Message(decoding: live.message, unknownTags: .skip)["n"] == "live")
        try device.acknowledge(through: live.streamID)
        try device.roundTrip()
        device.close()
        try sender.send(to: .token(credentials.token), n: "stored", timeToLiveSeconds: 60)
        clock.advance(seconds: 30)
        let again = try test.connect(credentials)
        #expect(try again.number() == "stored")
        again.close()
        clock.advance(seconds: leap)
        let last = try test.connect(credentials)
        try last.roundTrip()
        #expect(!last.hasMore(milliseconds: 50), "60 seconds have passed")
        try sender.send(to: .token(credentials.token), n: "after")
        #expect(try last.number() == "after")
        try await test.broker.close()
    }

    @Test("TTL-3 a broker does not start with a clock before 1970, and leaves no folder behind")
    func starting() async throws {
        let folder = TemporaryFolder()
        var configuration = BrokerConfiguration(folder: folder.path)
        configuration.clock = { Instant(millisecondsSince1970: -1) }
        let error = await #expect(throws: MartletError.self) {
            try await Broker.open(configuration)
        }
        #expect(error?.message.hasPrefix("The system's clock is before 1970.") ?? false)
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/data.mdb"))
        configuration.clock = { Instant(millisecondsSince1970: 0) }
        try await Broker.open(configuration).close()
    }
}
