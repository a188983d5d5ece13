// SPDX-License-Identifier: Apache-2.0
//
// The expiry line of a project (TTL-3) where clocks leap. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Expiry line")
struct ExpiryLineTests {
    private static let yearSeconds: Int64 = 365 * 86_400

    @Test("TTL-3: messages expire in time after a clock was a year ahead, and with it the line")
    func leap() throws {
        let bench = Bench()
        let instance = try bench.register(in: "tides")
        func send(timeToLive: UInt32) throws -> UInt64 {
            let (acceptance, _) = try bench.accepted(
                .token(instance.token.text), in: instance.project, timeToLive: timeToLive)
            return acceptance.messageNumber
        }
        let early = try send(timeToLive: 100)
        bench.now = bench.now.advanced(bySeconds: Self.yearSeconds)
        let ahead = try send(timeToLive: 1000)
        bench.now = bench.now.advanced(bySeconds: -Self.yearSeconds)
        let short = try send(timeToLive: 10)
        let long = try send(timeToLive: 200)
        var rows = [early, ahead, short, long]
        for (seconds, expired) in [(11, short), (90, early), (100, long)] {
            bench.now = bench.now.advanced(bySeconds: Int64(seconds))
            try bench.sweep()
            rows.removeAll { $0 == expired }
            #expect(try bench.rowCounts([.messages]) == [rows.count])
            #expect(try bench.pending(instance).map(\.sequence) == rows)
            try bench.expectClean()
        }
        bench.now = bench.now.advanced(bySeconds: Self.yearSeconds + 800)
        try bench.sweep()
        #expect(try bench.rowCounts([.messages, .due])[0] == 0)
        try bench.expectClean()
    }
}
