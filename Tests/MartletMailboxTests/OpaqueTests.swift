// SPDX-License-Identifier: Apache-2.0
//
// The mailbox rules for opaque messages (MSG-11): a topic replaces, the oldest goes for want of a place, and neither the
// four keys nor the throttle count. Rests on Example.

import MartletBase
import MartletEngine
import MartletRows
import Testing

private func topic(_ text: String? = nil) -> CollapseKey { .opaque(topic: text) }

@Suite("The rules for opaque messages")
struct OpaqueTests {
    private func limits(stored: Int = 100) -> BrokerLimits {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 0
        limits.storedPerInstanceMax = stored
        return limits
    }

    @Test("MSG-11 STO-1 past the limit the oldest goes, without a notice, and stays gone")
    func oldest() throws {
        let example = try Example(limits: limits(stored: 5))
        for _ in 0..<8 { _ = try example.send(key: topic()) }
        let frames = try example.connect()
        #expect(ids(frames) == [4, 5, 6, 7, 8] && counts(frames) == [])
        // An acknowledgement in the middle brings none of the others back.
        #expect(example.world.acknowledge(example.instance.ordinal, through: 0, single: [5, 6]))
        try example.world.handOver()
        try example.leave()
        let again = try example.connect()
        #expect(ids(again) == [4, 7, 8] && counts(again) == [])
        try example.leave()
        for _ in 0..<4 { _ = try example.send(key: topic()) }
        let later = try example.connect()
        #expect(ids(later) == [8, 9, 10, 11, 12] && counts(later) == [])
    }

    @Test("MSG-11 COL-3 a topic replaces its own message alone, and any number of topics is kept")
    func topics() throws {
        let example = try Example(limits: limits())
        for _ in 0..<2 { for index in 0..<30 { _ = try example.send(key: topic("t\(index)")) } }
        _ = try example.send(key: topic())
        _ = try example.send(key: .named("t1"))
        let frames = try example.connect()
        #expect(ids(frames) == Array(31...62) && counts(frames) == [])
    }

    @Test("MSG-11 COL-4 opaque messages with topics are not throttled")
    func bucket() throws {
        let example = try Example(limits: limits())
        _ = try example.connect()
        for index in 0..<40 { _ = try example.send(key: topic("t\(index)")) }
        #expect(ids(try example.frames()) == Array(1...40))
    }

    @Test("MSG-11 an expired message takes no place, and is replaced by none")
    func expired() throws {
        let example = try Example(limits: limits(stored: 2))
        _ = try example.send(seconds: 1, key: topic("t"))
        _ = try example.send(key: topic())
        try example.pass(milliseconds: 2000)
        _ = try example.send(key: topic("t"))
        #expect(ids(try example.connect()) == [2, 3])
    }

    @Test("PRI-2 STO-1 a doze holds opaque messages back, and the oldest of those held go")
    func doze() throws {
        let example = try Example(limits: limits(stored: 3))
        _ = try example.connect(.doze)
        for _ in 0..<5 { _ = try example.send(key: topic()) }
        _ = try example.send(key: topic(), priority: .high)
        #expect(ids(try example.frames()) == [6])
        try example.leave()
        let frames = try example.connect()
        #expect(
            ids(frames).suffix(3) == [3, 4, 5] || ids(frames) == [3, 4, 5, 6], "\(ids(frames))")
        #expect(counts(frames) == [])
    }
}
