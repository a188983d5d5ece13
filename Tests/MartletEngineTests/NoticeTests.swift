// SPDX-License-Identifier: Apache-2.0
//
// The stream ID of the notice of discards: the last discarded message's in a broker alone, and one that no message has in
// a cluster, where the device may have got the discarded messages on another node. Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Stream IDs of notices")
struct NoticeTests {
    /// The event at which the store writes down the discards.
    enum Event: CaseIterable {
        case connecting, listing, expiring, dozing
    }

    private static var limits: BrokerLimits {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 2
        return limits
    }

    private let bench: SendBench
    private let instance: Instance

    init() throws {
        bench = try SendBench(Self.limits)
        instance = try bench.register()
    }

    private func last() throws -> MessageSequence { try bench.lastSequence() }
    private func state() throws -> MailboxState { try bench.state(instance) }

    private func send(_ lifespan: Lifespan = .longest) throws {
        _ = try bench.accepted(
            SendCommand(target: .token(instance.token.text), body: [1], lifespan: lifespan))
    }

    private func connect(held: Absence? = nil) throws {
        _ = try bench.apply(
            .connected(
                project: bench.tides, ordinal: instance.ordinal, holder: instance.holder,
                connection: ConnectionStart(number: 1, position: try last(), held: held)))
    }

    private func acknowledge(_ single: [UInt64], arrival: MessageSequence? = nil) throws {
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: bench.tides, ordinal: instance.ordinal, through: LaneMarks(.none),
                    single: single, arrival: arrival)
            ]))
    }

    /// Sends four messages, of which the third discards the first three, and lets the store write that down.
    private func discard(at event: Event) throws {
        if event == .dozing { try connect() }
        let before = try last()
        try send(event == .expiring ? .seconds(1) : .longest)
        for _ in 0..<3 { try send() }
        switch event {
        case .connecting: try connect()
        case .listing: try acknowledge([], arrival: try last())
        case .expiring:
            bench.wait(seconds: 1)
            let (now, limits) = (bench.now, bench.limits)
            _ = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: 100)
            }
        case .dozing:
            try connect(held: .dozing(from: before, through: try last(), heldFrom: before))
        }
    }

    @Test(
        "STO-1 the notice of a broker alone has the last discarded message's ID",
        arguments: Event.allCases)
    func alone(event: Event) throws {
        let before = try last()
        try discard(at: event)
        let discarded = try state()
        #expect(discarded.discardedCount == 3)
        #expect(discarded.discardedThrough.rawValue == before.rawValue + 3)
        #expect(discarded.notice == discarded.discardedThrough)
        try acknowledge([discarded.notice.rawValue])
        #expect(try state().discardedCount == 0)
        try bench.expectClean()
    }

    @Test(
        "OPS-7 STO-1 no message of a cluster acknowledges a notice", arguments: Event.allCases,
        [true, false])
    func cluster(event: Event, isListed: Bool) throws {
        try bench.beginRun(of: "a", process: 1)
        let before = try last()
        try discard(at: event)
        let discarded = try state()
        #expect(discarded.discardedCount == 3)
        #expect(discarded.discardedThrough.rawValue == before.rawValue + 3)
        #expect(discarded.notice.rawValue == before.rawValue + 5)
        #expect(try last() == discarded.notice)
        // The device got the last discarded message, and the fourth, on a connection that the store does not know of.
        let taken = [discarded.discardedThrough.rawValue, before.rawValue + 4]
        try acknowledge(taken, arrival: isListed ? try last() : nil)
        #expect(try state().discardedCount == 3)
        #expect(try state().notice == discarded.notice)
        try acknowledge([discarded.notice.rawValue])
        #expect(try state().discardedCount == 0)
        try bench.expectClean()
    }

    @Test("OPS-7 STO-1 later discards of a cluster have a later notice")
    func later() throws {
        try bench.beginRun(of: "a", process: 1)
        try discard(at: .connecting)
        let first = try state()
        let before = try last()
        for _ in 0..<4 { try send() }
        try connect(held: .dozing(from: before, through: try last(), heldFrom: before))
        let second = try state()
        #expect(second.discardedCount > first.discardedCount)
        #expect(second.notice > first.notice)
        #expect(try last() == second.notice)
        try acknowledge([first.notice.rawValue])
        #expect(try state().discardedCount == second.discardedCount)
        try acknowledge([second.notice.rawValue])
        #expect(try state().discardedCount == 0)
        try bench.expectClean()
    }

    @Test("OPS-7 a check finds a notice behind the last stream ID of the project")
    func damagedNotice() throws {
        try bench.beginRun(of: "a", process: 1)
        try discard(at: .connecting)
        try bench.expectClean()
        var state = try state()
        state.noticeStreamID = MessageSequence(try last().rawValue + 1)
        let (key, row) = (Key.ordinal(instance.ordinal, in: bench.tides), MailboxRow.bytes(state))
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.mailboxes, key, row)
        }
        #expect(try bench.store.check().problems.map(\.kind) == [.mailbox])
    }
}
