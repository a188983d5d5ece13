// SPDX-License-Identifier: Apache-2.0
//
// Watchers of a project (EMB-3), beside devices and senders on real sockets: the sums are those of the reports.

import Martlet
import MartletWire
import Testing

@Suite("Watching a project", .timeLimit(.minutes(2)))
struct WatchTests {
    /// Reads events until the sums are as wanted.
    private static func events(
        _ watch: inout ProjectWatch.Iterator, until isWanted: (ProjectSums) -> Bool
    ) async -> (events: [ProjectEvent], sums: ProjectSums?) {
        var events: [ProjectEvent] = []
        while let event = await watch.next() {
            events.append(event)
            if case .sums(let sums) = event, isWanted(sums) { return (events, sums) }
        }
        return (events, nil)
    }

    private static func reported(_ test: TestBroker) throws -> DeliveryCounts {
        let day = Day(of: test.broker.now)
        return try test.broker.reports(days: day...day, in: TestBroker.project).entries
            .reduce(into: DeliveryCounts()) { $0 += $1.counts }
    }

    private static func message(_ topic: String = "weather") -> OutgoingMessage {
        OutgoingMessage(to: .topic(topic), Message(data: ["n": "1"]))
    }

    @Test("EMB-3 sums of a watch are those of the day reports")
    func sums() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        try await test.broker.createOpenProject("other")
        var watch = try test.broker.watch(TestBroker.project).makeAsyncIterator()
        var second = try test.broker.watch(TestBroker.project).makeAsyncIterator()
        var other = try test.broker.watch("other").makeAsyncIterator()
        let devices = try (0..<3).map { _ in try test.newDevice() }
        for device in devices { _ = try device.peer.subscribe("weather") }
        var ids: [String] = []
        for _ in 0..<5 {
            let receipt = try await test.broker.send(Self.message(), in: TestBroker.project)
            ids.append(try #require(receipt.messageID))
        }
        // Two devices acknowledge all, one nothing.
        for device in devices {
            var last: UInt64 = 0
            for _ in 0..<5 { last = try device.peer.message().streamID }
            if device.credentials.token != devices[2].credentials.token {
                try device.peer.acknowledge(through: last)
            }
        }
        devices[2].peer.close()
        let (events, sums) = await Self.events(&watch) {
            $0.counts.acknowledged == 10 && $0.counts.sent == 15
        }
        let found = try #require(sums)
        #expect(found.counts == (try Self.reported(test)))
        #expect(found.acceptedCount == 5 && found.counts.targeted == 15)
        #expect(found.droppedCount == 0 && found.refusedCount == 0)
        let accepted = events.compactMap { event -> AcceptedMessage? in
            if case .accepted(let message) = event { message } else { nil }
        }
        #expect(accepted.map(\.messageID) == ids)
        #expect(accepted.allSatisfy { $0.recipientCount == 3 && !$0.isDeferred && !$0.isScheduled })
        // What expires counts at the moment at which it is found.
        clock.advance(seconds: 29 * 86_400)
        let (more, later) = await Self.events(&watch) { $0.counts.expired == 5 }
        #expect(later?.counts.acknowledged == 10)
        // Sums overtake events, so the last progress may have come after the first sums.
        let ended = (events + more).compactMap { event -> DeliveryProgress? in
            if case .progress(let progress) = event, progress.isDone { progress } else { nil }
        }
        #expect(ended.map(\.messageID) == ids)
        #expect(ended.reduce(0) { $0 + $1.deliveredCount } == 15)

        try await test.broker.close()
        // Each watcher has all sums, and a watcher of another project none.
        let (_, last) = await Self.events(&second) { $0.counts.expired == 5 }
        #expect(last?.counts == later?.counts)
        let (rest, none) = await Self.events(&other) { _ in false }
        #expect(none == nil)
        for event in rest {
            guard case .sums(let sums) = event else {
                Issue.record("an event of another project")
                continue
            }
            #expect(sums.acceptedCount == 0 && sums.counts == DeliveryCounts())
        }
        while await watch.next() != nil {}
        #expect(await watch.next() == nil)
    }

    @Test(
        "EMB-3 TTL-2 messages that are not stored are told and counted too, and so are connections")
    func live() async throws {
        let test = try await TestBroker.open()
        var watch = try test.broker.watch(TestBroker.project).makeAsyncIterator()
        let (device, _) = try test.newDevice()
        _ = try device.subscribe("weather")
        let sender = try test.sender()
        var message = Self.message()
        message.timeToLiveSeconds = 0
        for _ in 0..<2 {
            _ = try await test.broker.send(message, in: TestBroker.project)
            _ = try device.message()
            try sender.send(to: .topic("weather"), timeToLiveSeconds: 0)
            _ = try device.message()
        }
        let (events, sums) = await Self.events(&watch) {
            $0.counts.sent == 4 && $0.counts.nowOrNever == 4 && $0.connectedCount == 1
        }
        #expect(sums?.acceptedCount == 4)
        #expect(sums?.connectionCount == 1 && sums?.disconnectedCount == 0)
        #expect(sums?.counts == (try Self.reported(test)))
        let count = events.count { if case .accepted = $0 { true } else { false } }
        #expect(count == 4)
        device.close()
        let (_, gone) = await Self.events(&watch) { $0.disconnectedCount == 1 }
        #expect(gone?.connectionCount == 0 && gone?.connectedCount == 1)
        sender.close()
        try await test.broker.close()
    }

    @Test("EMB-3 a watcher that does not read drops events, counts them, and loses no sum")
    func bounded() async throws {
        let test = try await TestBroker.open { $0.limits.senderConnectionsMax = 1 }
        var watch = try test.broker.watch(TestBroker.project).makeAsyncIterator()
        let token = try await test.broker.register(
            app: "com.example.tides", platform: .android, in: TestBroker.project
        ).token
        let message = OutgoingMessage(to: .token(token), Message(data: ["n": "1"]))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 0..<1500 {
                tasks.addTask { _ = try await test.broker.send(message, in: TestBroker.project) }
            }
            try await tasks.waitForAll()
        }
        // The one place is taken, and the next sender is refused.
        let sender = try test.sender()
        let refused = try test.peer()
        try refused.send(
            .hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        #expect(try refused.error().word == .resourceExhausted)
        let (events, sums) = await Self.events(&watch) {
            $0.acceptedCount == 1500 && $0.refusedCount == 1
        }
        // 1024 messages waited; the others and the refusal found no room.
        #expect(sums?.droppedCount == 477)
        #expect(sums?.counts.targeted == 1500)
        var waiting = events.count { if case .accepted = $0 { true } else { false } }
        try await test.broker.close()
        while let event = await watch.next() {
            if case .accepted = event { waiting += 1 }
        }
        #expect(waiting == 1024)
        sender.close()
    }

    @Test("EMB-3 a watch ends with its iterator, its task and its broker")
    func ends() async throws {
        let test = try await TestBroker.open()
        #expect(throws: MartletError.self) { try test.broker.watch("nobody") }
        let watch = try test.broker.watch(TestBroker.project)
        #expect(test.broker.watcherCount == 0)
        do {
            var iterator: ProjectWatch.Iterator? = watch.makeAsyncIterator()
            let others = (0..<50).map { _ in watch.makeAsyncIterator() }
            #expect(test.broker.watcherCount == 1 + others.count)
            _ = await iterator?.next()
            iterator = nil
            withExtendedLifetime(others) { #expect(test.broker.watcherCount == 50) }
        }
        #expect(test.broker.watcherCount == 0)
        let task = Task { for await _ in watch {} }
        while test.broker.watcherCount == 0 { await Task.yield() }
        task.cancel()
        await task.value
        #expect(test.broker.watcherCount == 0)
        let last = Task { for await _ in watch {} }
        while test.broker.watcherCount == 0 { await Task.yield() }
        try await test.broker.close()
        await last.value
        // A watch of a closed broker ends at once.
        for await event in watch {
            guard case .sums = event else {
                Issue.record("an event of a closed broker")
                continue
            }
        }
    }
}
