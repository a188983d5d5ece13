// SPDX-License-Identifier: Apache-2.0
//
// Messages to many as their senders see them: deferred and begun when others end, listed while they
// are in progress, below a ceiling (FAN-1, FAN-7, FAN-8, QUO-5), over real sockets. A ceiling on a
// clock that stands still keeps a fanout in progress for as long as a test wants. Rests on Support.

import Logging
import Martlet
import MartletWire
import Testing

@Suite("Fanouts in progress", .timeLimit(.minutes(2)))
struct FanoutTests {
    /// One delivery at once (20 milliseconds' worth); the next when the clock is moved.
    private func open(
        inProgress: Int = 1, deferred: Int = 100, _ clock: TestClock,
        in folder: TemporaryFolder = TemporaryFolder(), loops: Int = 2
    ) async throws -> TestBroker {
        try await TestBroker.open(in: folder, loops: loops) { configuration in
            configuration.clock = { clock.instant }
            configuration.deliveriesPerSecond = 50
            configuration.limits.fanoutsInProgressMax = inProgress
            configuration.limits.fanoutsDeferredMax = deferred
        }
    }

    private func devices(_ count: Int, _ test: TestBroker, topic: String = "t") throws -> [Peer] {
        try (0..<count).map { _ in
            let (device, _) = try test.newDevice()
            _ = try device.subscribe(topic)
            return device
        }
    }

    /// Asks until it is as wanted; what never is ends with the suite's limit.
    private func wait(_ isSo: () async throws -> Bool) async throws {
        while try await !isSo() { try await Task.sleep(for: .milliseconds(10)) }
    }

    private func list(_ test: TestBroker) async throws -> [FanoutSummary] {
        try await test.broker.fanouts(in: TestBroker.project).entries
    }

    /// Moves the clock until a condition holds.
    private func pass(_ clock: TestClock, until isSo: () async throws -> Bool) async throws {
        while try await !isSo() {
            clock.advance(seconds: 1)
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    @Test(
        "FAN-1 FAN-8: what there is no room for is deferred with its place, listed, and begins when the one before it ends",
        arguments: [1, 2])
    func deferring(loops: Int) async throws {
        let clock = TestClock()
        let test = try await open(clock, loops: loops)
        let devices = try devices(3, test)
        let sender = try test.sender()
        let first = try sender.send(to: .topic("t"), n: "a")
        #expect(first.recipients == 3 && first.deferredPlace == 0)
        try await wait { try await list(test).first?.deliveredCount == 1 }
        let second = try sender.send(to: .topic("t"), n: "b")
        #expect(second.recipients == 0 && second.deferredPlace == 1)
        let third = try sender.send(to: .condition("'t' in topics"), n: "c")
        #expect(third.deferredPlace == 2 && third.messageNumber == second.messageNumber + 1)

        let listed = try await list(test)
        #expect(
            listed.map(\.messageID)
                == [first, second, third].map { "projects/tides/messages/\($0.messageNumber)" })
        try #require(listed.map(\.deferredPlace) == [nil, 1, 2])
        #expect(listed.map(\.kind) == [.topic, .topic, .condition])
        #expect(listed.map(\.target) == ["t", "t", "'t' in topics"])
        #expect(listed[0].recipientCount == 3 && listed[0].deliveredCount == 1)
        #expect(listed[0].share == 1 && listed[0].progress < 1)
        #expect(listed.map(\.project) == ["tides", "tides", "tides"])

        // A token is not held back (FAN-5), whatever waits.
        let (other, credentials) = try test.newDevice()
        #expect(try sender.send(to: .token(credentials.token), n: "d").deferredPlace == 0)
        #expect(try other.number() == "d")

        try await pass(clock) { try await list(test).isEmpty }
        for device in devices {
            #expect(try [device.number(), device.number(), device.number()] == ["a", "b", "c"])
        }
        try await test.broker.close()
    }

    @Test(
        "FAN-1: when too many wait a message is refused with a delay; the project's policy holds at once"
    )
    func refusing() async throws {
        let clock = TestClock()
        let test = try await open(deferred: 1, clock)
        let devices = try devices(2, test)
        let sender = try test.sender()
        _ = try sender.send(to: .topic("t"), n: "a")
        try await wait { try await list(test).first?.deliveredCount == 1 }
        #expect(try sender.send(to: .topic("t"), n: "b").deferredPlace == 1)
        let full = try #require(throws: MartletError.self) {
            try sender.send(to: .topic("t"), n: "c")
        }
        #expect(full.word == .resourceExhausted)
        #expect((10...60_000).contains(full.retryDelayMilliseconds ?? 0))
        // MSG-7: a check hears the same.
        let checked = try #require(throws: MartletError.self) {
            try sender.send(to: .topic("t"), validateOnly: true)
        }
        #expect(checked.word == .resourceExhausted)
        // Nobody waits any more, and the project wants it so.
        _ = try await test.broker.cancel(
            try await list(test)[1].messageID, in: TestBroker.project)
        try await test.broker.changeProject(TestBroker.project, overload: .refuse)
        let refused = try #require(throws: MartletError.self) {
            try sender.send(to: .topic("t"), n: "d")
        }
        #expect(refused.word == .resourceExhausted && refused.retryDelayMilliseconds != nil)
        try await pass(clock) { try await list(test).isEmpty }
        #expect(try sender.send(to: .topic("t"), n: "e").deferredPlace == 0)
        try await pass(clock) { try await list(test).isEmpty }
        for device in devices { #expect(try [device.number(), device.number()] == ["a", "e"]) }
        try await test.broker.close()
    }

    @Test("TTL-2 FAN-1: stored fanouts in progress take no place from now-or-never messages")
    func nowOrNever() async throws {
        let clock = TestClock()
        let test = try await open(clock, loops: 1)
        let devices = try devices(3, test)
        let sender = try test.sender()
        _ = try sender.send(to: .topic("t"), n: "a")
        try await wait { try await list(test).first?.deliveredCount == 1 }
        #expect(try sender.send(to: .topic("t"), n: "b", timeToLiveSeconds: 0).recipients == 3)
        // The next of its kind has no room, and cannot wait.
        let refused = try #require(throws: MartletError.self) {
            try sender.send(to: .topic("t"), n: "c", timeToLiveSeconds: 0)
        }
        #expect(refused.word == .resourceExhausted && refused.retryDelayMilliseconds != nil)
        for device in devices {
            for n in ["a", "b"] {
                while !device.hasMore(milliseconds: 20) { clock.advance(seconds: 1) }
                #expect(try device.number() == n)
            }
        }
        try await test.broker.close()
    }

    @Test("FAN-1: deferred messages are there after a restart, and reach those who connect again")
    func restarting() async throws {
        let clock = TestClock()
        let folder = TemporaryFolder()
        let test = try await open(clock, in: folder)
        var peers: [Peer] = []
        var all: [InstanceCredentials] = []
        for _ in 0..<2 {
            let (device, credentials) = try test.newDevice()
            _ = try device.subscribe("t")
            peers.append(device)
            all.append(credentials)
        }
        let sender = try test.sender()
        for n in ["a", "b", "c"] { _ = try sender.send(to: .topic("t"), n: n) }
        #expect(try await list(test).map(\.deferredPlace).suffix(2) == [1, 2])
        for peer in peers { peer.close() }
        try await test.broker.close()

        let again = try await open(clock, in: folder)
        for credentials in all {
            let device = try again.connect(credentials)
            try await pass(clock) { try await list(again).isEmpty }
            #expect(try [device.number(), device.number(), device.number()] == ["a", "b", "c"])
        }
        try await again.broker.close()
    }

    @Test(
        "FAN-2 FAN-8: shares of projects follow their weights, shares of fanouts are equal, at once"
    )
    func shares() async throws {
        let clock = TestClock()
        let test = try await open(inProgress: 10, clock)
        let devices = try devices(4, test)
        let sender = try test.sender()
        for n in ["a", "b"] { _ = try sender.send(to: .topic("t"), n: n) }
        try await test.broker.createOpenProject("other")
        let key = try await test.broker.createServerKey(named: "k", in: "other")
        let stranger = try test.peer()
        try stranger.send(
            .hello(.newDevice(projectID: "other", appName: "app", platform: .android)))
        _ = try stranger.welcome()
        let second = try test.peer()
        try second.send(
            .hello(.newDevice(projectID: "other", appName: "app", platform: .android)))
        _ = try second.welcome()
        _ = try stranger.subscribe("t")
        _ = try second.subscribe("t")
        let foreign = try test.peer()
        try foreign.send(.hello(.sender(projectID: "other", serverKey: key.text)))
        _ = try foreign.welcome()
        _ = try foreign.send(to: .topic("t"), n: "x")
        try await test.broker.changeProject("other", weight: 3)
        let all = try await test.broker.fanouts().entries
        #expect(all.map(\.project) == ["tides", "tides", "other"])
        #expect(all.map(\.share) == [0.125, 0.125, 0.75])
        try await wait {
            let projects = try await test.broker.status().projects
            return projects.map(\.connectionCount).reduce(0, +) == 6
        }
        let projects = try await test.broker.status().projects
        #expect(projects.map(\.project) == ["tides", "other"])
        #expect(projects.map(\.fanoutsInProgress) == [2, 1])
        #expect(projects.map(\.share) == [0.25, 0.75])
        #expect(projects.map(\.weight) == [1, 3])
        #expect(projects.allSatisfy { $0.fanoutBytes > 0 })
        try await pass(clock) { try await test.broker.fanouts().entries.isEmpty }
        for device in devices { #expect(try [device.number(), device.number()] == ["a", "b"]) }
        try await test.broker.close()
    }

    @Test("FAN-8: when the last connection has ended, a project has none")
    func lastConnection() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, _) = try test.newDevice()
        func connectionCount() async throws -> Int {
            try await test.broker.status().projects.map(\.connectionCount).reduce(0, +)
        }
        try await wait { try await connectionCount() == 1 }
        device.close()
        try await wait { try await connectionCount() == 0 }
        try await test.broker.close()
    }

    @Test(
        "FAN-8: a sender sees its own project's fanouts, an administrator all; pages go on where they ended"
    )
    func wire() async throws {
        let clock = TestClock()
        let test = try await open(inProgress: 2, clock)
        let devices = try devices(2, test)
        let sender = try test.sender()
        let numbers = try (0..<5).map { n in
            try sender.send(to: .topic("t"), n: "\(n)").messageNumber
        }
        try await test.broker.createOpenProject("other")
        var (cursor, listed): (String, [FanoutSummary]) = ("", [])
        repeat {
            try sender.send(
                .request(
                    ListFanoutsRequest(
                        correlation: 9, projectID: "", cursor: cursor, limit: 2)))
            guard let page = try sender.next().answer(as: FanoutPage.self) else {
                throw Peer.Failure.silent
            }
            #expect(page.fanouts.count <= 2)
            listed += page.fanouts
            cursor = page.nextCursor
        } while !cursor.isEmpty
        #expect(listed.map(\.messageNumber) == numbers)
        #expect(listed.map(\.deferredPlace) == [nil, nil, 1, 2, 3])

        for (project, limit, word) in [
            ("other", 10, ErrorWord.permissionDenied), ("tides", 0, .invalidArgument),
            ("tides", 1001, .invalidArgument),
        ] {
            try sender.send(
                .request(
                    ListFanoutsRequest(
                        correlation: 9, projectID: project, cursor: "", limit: UInt16(limit))))
            #expect(try sender.error().word == word)
        }
        for cursor in ["x", "1.2.3", "1.2.3.4.5", "4294967296.0.0.0", "-1.0.0.0"] {
            try sender.send(
                .request(
                    ListFanoutsRequest(correlation: 9, projectID: "", cursor: cursor, limit: 5)))
            #expect(try sender.error().field == "cursor")
        }
        for request in [
            ClientFrame.request(StatusRequest(correlation: 9)),
            .request(MetricsRequest(correlation: 9)),
            .request(ChangeProjectRequest(correlation: 9, projectID: "tides", weight: 9)),
        ] {
            try sender.send(request)
            #expect(try sender.error().word == .permissionDenied)
            try devices[0].send(request)
            var frame = try devices[0].next()
            while case .deliver = frame { frame = try devices[0].next() }
            guard case .error(let error) = frame else { throw Peer.Failure.unexpected(frame) }
            #expect(error.error.word == .permissionDenied)
        }

        let administrator = try test.peer()
        try administrator.send(
            .hello(.administrator(administratorKey: test.broker.administratorKey, projectID: "")))
        _ = try administrator.welcome()
        for (project, count) in [("", 5), ("tides", 5), ("other", 0)] {
            try administrator.send(
                .request(
                    ListFanoutsRequest(
                        correlation: 3, projectID: project, cursor: "", limit: 100)))
            guard let page = try administrator.next().answer(as: FanoutPage.self) else {
                throw Peer.Failure.silent
            }
            #expect(page.fanouts.count == count && page.nextCursor.isEmpty)
        }
        try administrator.send(
            .request(
                ChangeProjectRequest(
                    correlation: 4, projectID: "tides", weight: 7, overload: .refuse)))
        guard let changed = try administrator.next().answer(as: ProjectResult.self) else {
            throw Peer.Failure.silent
        }
        #expect(changed.project.weight == 7 && changed.project.overload == .refuse)
        try administrator.send(.request(StatusRequest(correlation: 5)))
        guard let status = try administrator.next().answer(as: StatusResult.self)?.status else {
            throw Peer.Failure.silent
        }
        #expect(status.now == clock.instant)
        let tides = try #require(status.projects.first { $0.project == "tides" })
        #expect(tides.fanoutsInProgress == 2 && tides.fanoutsDeferred == 3 && tides.weight == 7)
        #expect(tides.share == 1)
        try administrator.send(.request(MetricsRequest(correlation: 6)))
        guard let metrics = try administrator.next().answer(as: MetricsResult.self)?.lines else {
            throw Peer.Failure.silent
        }
        // Series by series what is served over HTTP; counters of a broker at rest are equal.
        func series(_ lines: [String]) -> [String: String] {
            Dictionary(
                uniqueKeysWithValues: lines.filter { !$0.hasPrefix("#") }.map { line in
                    let space = line.lastIndex(of: " ") ?? line.endIndex
                    return (String(line[..<space]), String(line[space...]))
                })
        }
        let told = series(metrics)
        let served = series(test.broker.metricsText.split(separator: "\n").map(String.init))
        #expect(Set(told.keys) == Set(served.keys))
        for name in told.keys where name.contains("_total") || name.contains("_count") {
            #expect(told[name] == served[name], "\(name)")
        }
        #expect(told[#"martlet_project_fanouts_deferred{project="tides"}"#] == " 3")
        #expect(try await test.broker.metrics().hasPrefix("# TYPE martlet_"))
        try await test.broker.close()
    }

    @Test(
        "FAN-1: a broker that nobody connects to has nothing in progress; what was sent is in the mailboxes"
    )
    func embedded() async throws {
        let folder = TemporaryFolder()
        var configuration = BrokerConfiguration(folder: folder.path)
        configuration.logger.logLevel = .critical
        configuration.limits.fanoutsInProgressMax = 1
        let broker = try await Broker.open(configuration)
        try await broker.createOpenProject("tides")
        let device = try await broker.register(
            app: "com.example.tides", platform: .android, in: "tides")
        _ = try await broker.subscribe([device.token], to: "t", in: "tides")
        for n in 0..<5 {
            let receipt = try await broker.send(
                OutgoingMessage(to: .topic("t"), Message(data: ["n": "\(n)"])), in: "tides")
            #expect(receipt.recipientCount == 1 && receipt.deferredPlace == nil)
        }
        #expect(try await broker.fanouts().entries.isEmpty)
        try await broker.close()
    }
}
