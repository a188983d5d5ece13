// SPDX-License-Identifier: Apache-2.0
//
// What a broker must not lose while its committer has no room, or its store cannot be read. Rests on
// Support.

import Glibc
import Logging
import Martlet
import MartletEngine
import MartletRows
import MartletStore
import MartletWire
import Synchronization
import Testing

/// A clock at which the committer can be made to wait: it asks for the time before each transaction.
private final class Gate: Sendable {
    private let isShut = Atomic(false)

    func shut() { isShut.store(true, ordering: .sequentiallyConsistent) }
    func open() { isShut.store(false, ordering: .sequentiallyConsistent) }

    var instant: Instant {
        while isShut.load(ordering: .sequentiallyConsistent), Self.isCommitter { usleep(1000) }
        return Instant(millisecondsSince1970: 1_800_000_000_000)
    }

    private static var isCommitter: Bool {
        let descriptor = Glibc.open("/proc/thread-self/comm", O_RDONLY)
        defer { close(descriptor) }
        var name = [UInt8](repeating: 0, count: 32)
        let count = read(descriptor, &name, name.count)
        return String(decoding: name.prefix(max(count, 0)), as: UTF8.self) == "martlet-commit\n"
    }
}

/// Counts lines of a log.
struct CountingLog: LogHandler {
    final class Lines: Sendable {
        private let counted = Atomic(0)
        var count: Int { counted.load(ordering: .relaxed) }
        func add() { counted.add(1, ordering: .relaxed) }
    }

    let text: String
    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.error

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        if event.message.description == text { lines.add() }
    }
}

@Suite("Overload", .timeLimit(.minutes(3)))
struct OverloadTests {
    /// Lets senders ask until the committer has no room for more.
    /// - Returns: the senders, their answers still to come.
    private func fill(_ test: TestBroker) throws -> [Peer] {
        var writer = WireWriter()
        let body = try Message(data: ["n": "1"]).encoded()
        ClientFrame.send(
            SendRequest(correlation: 1, target: .topic("nobody"), message: body, validateOnly: true)
        ).encode(into: &writer)
        let flood = [UInt8]((0..<1024).map { _ in writer.bytes }.joined())
        var senders: [Peer] = []
        while senders.count < 200 {
            let sender = try test.sender()
            try sender.send(raw: flood)
            senders.append(sender)
            // Nothing is answered but refusals.
            if senders.count >= 64, sender.hasMore(milliseconds: 100) {
                #expect(try sender.error().word == .unavailable)
                return senders
            }
        }
        Issue.record("The committer takes everything.")
        return senders
    }

    private func waitUntil(_ condition: () -> Bool) {
        for _ in 0..<10_000 where !condition() { usleep(1000) }
        #expect(condition())
    }

    @Test("STO-1 NET-3: that a connection has ended is not lost while the committer has no room")
    func departures() async throws {
        let gate = Gate()
        let test = try await TestBroker.open(loops: 1) {
            $0.clock = { gate.instant }
            $0.limits.storedPerInstanceMax = 2
        }
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let first = try sender.send(to: .token(credentials.token))
        _ = try device.message()
        try device.acknowledge(through: first.messageNumber)
        try device.roundTrip()
        gate.shut()
        let senders = try fill(test)
        let connectionCount = senders.count + 1
        waitUntil { test.broker.statistics.connectionCount == connectionCount + 1 }
        device.close()
        waitUntil { test.broker.statistics.connectionCount == connectionCount }
        // Nor that one has begun and ended.
        let visitor = try test.connect(credentials)
        visitor.close()
        waitUntil { test.broker.statistics.connectionCount == connectionCount }
        gate.open()
        for peer in senders { peer.close() }
        waitUntil { test.broker.statistics.connectionCount == 1 }
        for _ in 0..<3 {
            // What was asked before may still fill the queue.
            var isTaken = false
            while !isTaken {
                do {
                    try sender.send(to: .token(credentials.token))
                    isTaken = true
                } catch let error as MartletError where error.word == .unavailable {}
            }
        }
        let again = try test.connect(credentials)
        var frame = try again.next()
        while case .confirmed = frame { frame = try again.next() }
        guard case .deleted(let deleted) = frame else { throw Peer.Failure.unexpected(frame) }
        #expect(deleted.count == 3)
        try await test.broker.close()
    }

    @Test("RCP-1: receipts that could not be read are tried again without another receipt's coming")
    func unreadableReceipts() async throws {
        let folder = TemporaryFolder()
        let first = try await TestBroker.open(in: folder, loops: 1)
        try await first.broker.close()
        let store = try Store(StoreConfiguration(folder: folder.path))
        try store.write { (transaction) throws(StorageError) in
            let project = try transaction.projects.project(id: TestBroker.project)!.number
            _ = try transaction.receipts.append([1, 2, 3], in: project)
        }
        store.close()
        let lines = CountingLog.Lines()
        let test = try await TestBroker.open(in: folder, loops: 1) {
            $0.logger = Logger(label: "test") { _ in
                CountingLog(text: "receipts could not be read", lines: lines)
            }
        }
        let listener = try test.sender()
        try listener.send(.listenReceipts(ListenReceiptsRequest(correlation: 1)))
        try listener.done()
        waitUntil { lines.count >= 3 }
        try listener.roundTrip()
        try await test.broker.close()
    }
}
