// SPDX-License-Identifier: Apache-2.0
//
// What is known of a data folder while one broker after the other is killed on it, and what each of
// them does: deliver what was stored, then work under load. Topics that messages are sent to never
// change their subscribers, so it is known exactly who has to get each message, and every message says
// so itself. Rests on CrashLoads and MartletStore.

import Foundation
import Glibc
import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletWire
import Testing

final class CrashWorld {
    let folder = NSTemporaryDirectory() + "martlet-crash-" + UUID().uuidString
    var instances: [InstanceCredentials] = []
    var sender = Hello.sender(projectID: "tides", serverKey: "")
    let number = ProjectNumber(0)

    /// By ID: accepted, and those that may have been.
    var accepted: [String: Sent] = [:]
    var uncertain: [String: Sent] = [:]
    /// MSG-9: to be asked again.
    private var open: MailboxLoad.Open?
    /// By ID: its place in the project. A message has one, for everybody and for ever.
    var places: [String: UInt64] = [:]
    /// By device: IDs of what it was given and has acknowledged. Whether the broker still knows is
    /// open.
    var acknowledgedMessages: [Int: Set<String>] = [:]
    /// Of each instance and collapse key what was sent in that order, and whether it was accepted.
    var keyed: [Slot: [(id: String, isCertain: Bool)]] = [:]
    /// Cancelled, or never stored: in no mailbox.
    var gone: Set<String> = []
    /// Accepted and cancelled, or not: nobody was told.
    var loose: Set<String> = []
    /// MSG-10: what was scheduled for then, or earlier, was sent.
    var dueThrough = Int64.min
    /// RCP-2: what devices told and were answered.
    var told: Set<Told> = []
    var deviceTopics: [Int: Set<String>] = [:]
    var batchTopics: Set<String> = []
    /// What the test has seen.
    var counts = Counts()

    struct Counts {
        var delivered = 0
        /// Delivered while it was accepted.
        var live = 0
        var dozing = 0
        var askedAgain = 0
        /// Scheduled messages in mailboxes.
        var scheduled = 0
    }

    struct Slot: Hashable {
        var instance: Int
        var key: String
    }

    struct Told: Hashable {
        var messageNumber: UInt64
        var token: String
    }

    /// A message in a mailbox.
    struct Pending {
        var sequence: UInt64
        var id: String
        var isHigh: Bool
        var expires: Int64

        /// It may expire before it is delivered.
        var isShortLived: Bool { expires < wallClock + 60_000 }
    }

    /// One process, as its devices see it.
    struct Run {
        /// Before it was started.
        let began: Int64
        /// What no connection of it may get.
        let forbidden: Set<String>
    }

    static let churning = 0..<4
    static let batched = 50..<100

    init() async throws {
        let broker = try await Broker.open(BrokerConfiguration(folder: folder))
        _ = try await broker.createProject("tides")
        let key = try await broker.createServerKey(named: "load", in: "tides")
        sender = .sender(projectID: "tides", serverKey: key.text)
        for _ in 0..<100 {
            instances.append(
                try await broker.register(app: "com.example.tides", platform: .android, in: "tides")
            )
        }
        try await broker.close()
        let store = try Store(StoreConfiguration(folder: folder))
        var engine = Engine()
        for (topic, step) in [("all", 1), ("even", 2), ("third", 3)] {
            let tokens = instances.indices.filter { $0 % step == 0 }.map { instances[$0].token }
            _ = try store.write { (transaction) throws(StorageError) in
                try engine.apply(
                    .changeTopic(project: number, topic: topic, change: .subscribe, tokens: tokens),
                    now: Instant(millisecondsSince1970: 0), in: transaction)
            }
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    func device(_ index: Int, _ state: DeviceState = .active) -> Hello {
        .device(
            projectID: "tides", token: instances[index].token,
            deviceKey: instances[index].deviceKey, state: state, unconfirmed: [])
    }

    // MARK: One process

    /// Delivers what was stored to `readers`, then works under load until it is killed, some time after
    /// it has answered so many requests: not after some time, or a slow machine would prove less.
    func cycle(
        _ cycle: Int, readers: [Int], _ modes: [Reader.Mode] = Reader.Mode.allCases,
        killAfter answers: Int
    ) throws {
        var expected: [Int: [Pending]] = [:]
        do {
            let store = try Store(StoreConfiguration(folder: folder))
            let now = wallClock
            for reader in readers { expected[reader] = try pending(reader, in: store, at: now) }
        }
        // What was not answered may reach somebody when it is asked again.
        var forbidden = gone.union(replaced().certainly)
        if let open { forbidden.remove(open.sent.id) }
        let run = Run(began: wallClock, forbidden: forbidden)
        let server = try Server(folder: folder)
        var listening: [Reader] = []
        for reader in readers {
            let reader = Reader(
                reader, try WireClient(port: server.port), modes.randomElement()!)
            try read(reader, expected[reader.index]!, run)
            listening.append(reader)
        }

        let group = DispatchGroup()
        var devices: [Int: DeviceLoad] = [:]
        for index in Self.churning {
            devices[index] = DeviceLoad(device(index), topics: deviceTopics[index] ?? [])
        }
        let batch = BatchLoad(
            sender, tokens: Self.batched.map { instances[$0].token }, topics: batchTopics)
        let send = SendLoad(sender, cycle: cycle, tokens: instances.map(\.token))
        let mail = MailboxLoad(
            sender, cycle: cycle, tokens: instances.map(\.token), again: open)
        let loads: [Load] = Array(devices.values) + [batch, send, mail]
        for load in loads { load.start(server.port, group) }
        mail.wait(forAnswers: answers)
        usleep(UInt32.random(in: 0...10_000))
        server.kill9()
        group.wait()
        for load in loads {
            // A connection that the kill came before is none.
            if let trouble = load.trouble, !"\(trouble)".contains("connect") { throw trouble }
        }
        for sent in send.accepted { accepted[sent.id] = sent }
        for sent in send.open.values { uncertain[sent.id] = sent }
        note(mail)
        for reader in listening {
            let before = reader.got.count
            // What is left in the socket.
            while let frame = try reader.client.receive() {
                if case .deliver(let delivery) = frame { reader.got.append(delivery) }
            }
            counts.live += reader.got.count - before
            try verify(reader.got, of: reader.index, run, reader.mode)
        }
        for (index, load) in devices {
            deviceTopics[index] = load.topics
            try verify(load.got, of: index, run, .awake)
            for delivery in load.got[..<load.acknowledgedCount] {
                acknowledgedMessages[index, default: []].insert(try Self.id(delivery))
            }
        }
        batchTopics = batch.topics
        try verify(devices, batch)
    }

    private func note(_ mail: MailboxLoad) {
        if let again = open, mail.open?.sent.id != again.sent.id {
            counts.askedAgain += 1
            uncertain[again.sent.id] = nil
            loose.remove(again.sent.id)
        }
        open = mail.open
        for sent in mail.accepted { accepted[sent.id] = sent }
        if let sent = mail.open?.sent {
            uncertain[sent.id] = sent
            loose.insert(sent.id)
        }
        gone.formUnion(mail.gone)
        loose.formUnion(mail.loose)
        dueThrough = max(dueThrough, mail.dueThrough)
        for sent in mail.accepted + [mail.open?.sent].compactMap({ $0 }) where !sent.key.isEmpty {
            for index in sent.recipients {
                let slot = Slot(instance: index, key: sent.key)
                // It was the last before this process, too.
                if keyed[slot]?.last?.id == sent.id { keyed[slot]!.removeLast() }
                keyed[slot, default: []].append((sent.id, sent.id != mail.open?.sent.id))
            }
        }
    }

    /// COL-1: what was certainly replaced, and what perhaps.
    func replaced() -> (certainly: Set<String>, perhaps: Set<String>) {
        var certainly: Set<String> = []
        var perhaps: Set<String> = []
        for history in keyed.values {
            guard let last = history.lastIndex(where: \.isCertain) else { continue }
            certainly.formUnion(history[..<last].map(\.id))
            if last + 1 < history.count { perhaps.insert(history[last].id) }
        }
        return (certainly, perhaps)
    }

    // MARK: Reading

    /// A device that comes for its messages.
    final class Reader {
        enum Mode: CaseIterable { case awake, wakes, dozes }

        let index: Int
        let client: WireClient
        let mode: Mode
        var got: [Deliver] = []

        init(_ index: Int, _ client: WireClient, _ mode: Mode) {
            self.index = index
            self.client = client
            self.mode = mode
        }
    }

    static func id(_ delivery: Deliver) throws -> String {
        try Message(decoding: delivery.message, unknownTags: .skip)["id"] ?? ""
    }

    /// A device comes, perhaps dozing, gets everything that is its own, and acknowledges some of it, so
    /// that the next process has something left.
    private func read(_ reader: Reader, _ expected: [Pending], _ run: Run) throws {
        let client = reader.client
        let dozes = reader.mode != .awake
        #expect(try client.hello(device(reader.index, dozes ? .doze : .active)))
        try receive(dozes ? expected.filter(\.isHigh) : expected, reader)
        if dozes { counts.dozing += 1 }
        if reader.mode == .wakes {
            client.send(DeviceStateReport(state: .active))
            try receive(expected.filter { !$0.isHigh }, reader)
        }
        let got = reader.got
        counts.delivered += got.count
        for delivery in got.filter(\.options.wantsReceipts).suffix(2) {
            client.send(
                ReceiptRequest(correlation: 1, kind: .opened, streamID: delivery.streamID))
            waiting: while true {
                switch try client.receive() {
                case .done: break waiting
                case .deliver(let delivery): reader.got.append(delivery)
                case let other: throw WireClient.Failure(text: "instead of DONE: \(other as Any)")
                }
            }
            told.insert(
                Told(messageNumber: delivery.messageNumber, token: instances[reader.index].token))
        }
        guard let last = got.randomElement()?.streamID else { return }
        // What a doze held back is acknowledged message by message.
        let taken = got.filter { dozes ? $0.streamID == last : $0.streamID <= last }
        client.send(
            dozes ? Acknowledge(through: 0, streamIDs: [last]) : Acknowledge(through: last))
        for delivery in taken {
            acknowledgedMessages[reader.index, default: []].insert(try Self.id(delivery))
        }
    }

    /// What is expected, in order; what ends its life soon may be missing, and what was scheduled comes
    /// when it is due.
    private func receive(_ expected: [Pending], _ reader: Reader) throws {
        let sequences = Set(expected.map(\.sequence))
        var rest = expected[...]
        while let next = rest.first(where: { !$0.isShortLived }) {
            let frame = try reader.client.receive()
            guard case .deliver(let delivery) = frame else {
                throw WireClient.Failure(text: "instead of message \(next.id): \(frame as Any)")
            }
            reader.got.append(delivery)
            let id = try Self.id(delivery)
            if let at = rest.firstIndex(where: { $0.sequence == delivery.streamID && $0.id == id }),
                rest[..<at].allSatisfy(\.isShortLived)
            {
                rest = rest[(at + 1)...]
                continue
            }
            let sent = accepted[id] ?? uncertain[id]
            guard sent?.isScheduled == true, !sequences.contains(delivery.streamID) else {
                throw WireClient.Failure(text: "'\(id)' instead of '\(next.id)'")
            }
        }
    }
}
