// SPDX-License-Identifier: Apache-2.0
//
// What must be true after a kill: of the store, which is opened here, of what came to devices, and of
// receipts. Rests on CrashWorld.

import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletWire
import Testing

extension CrashWorld {
    /// Those of the server, as far as they decide what is stored.
    private static let limits: BrokerLimits = {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 0
        return limits
    }()

    /// What is in an instance's mailbox at `now`.
    func pending(_ index: Int, in store: Store, at now: Int64) throws -> [Pending] {
        try store.read { (transaction) throws in
            let ordinal = try Listing.locate(instances[index].token, in: number, transaction)
            let instance = try #require(try transaction.instances.instance(ordinal, in: number))
            let app = try #require(try transaction.projects.app(instance.app, in: number))
            let owner = MailboxOwner(
                project: number, ordinal: ordinal, platform: app.platform,
                appKey: CollapseDigest(of: app.name))
            let state = try transaction.mailboxes.state(of: ordinal, in: number)
            var replay = MailboxReplay(limits: Self.limits, state: state)
            _ = try transaction.log.forEachLogged(for: owner, after: state.logStart, rowsMax: .max)
            {
                replay.add($0)
            }
            var found: [(entry: LogEntry, bytes: [UInt8])] = []
            for entry in replay.left(at: Instant(millisecondsSince1970: now)) {
                let isThere = try transaction.messages.withMessage(
                    entry.sequence, on: app.platform, in: number
                ) {
                    found.append((entry, Array($0.body)))
                }
                #expect(isThere, "message \(entry.sequence) is stored without its body")
            }
            return try found.map { entry, bytes in
                Pending(
                    sequence: entry.sequence.rawValue,
                    id: try Message(decoding: bytes, unknownTags: .skip)["id"] ?? "",
                    isHigh: entry.lane.isHigh, expires: entry.expires.millisecondsSince1970)
            }
        }
    }

    private func topics(_ index: Int, in store: Store) throws -> Set<String> {
        try store.read { (transaction) throws in
            let ordinal = try Listing.locate(instances[index].token, in: number, transaction)
            let page = try Listing.topics(
                of: ordinal, in: number, after: "", limit: 1000, transaction)
            return Set(page.entries.map(\.name.text))
        }
    }

    // MARK: Deliveries

    /// Everything that came through one connection.
    func verify(
        _ deliveries: [Deliver], of index: Int, _ run: Run, _ mode: Reader.Mode
    ) throws {
        var ids: Set<String> = []
        var last: UInt64 = 0
        for delivery in deliveries {
            let id = try Self.id(delivery)
            let sent = try #require(accepted[id] ?? uncertain[id], "'\(id)' was never sent")
            #expect(sent.recipients.contains(index), "\(index) got '\(id)', which is not for it")
            #expect(ids.insert(id).inserted, "\(index) got '\(id)' twice on one connection")
            #expect(!run.forbidden.contains(id), "'\(id)' was replaced, cancelled or passed by")
            #expect(
                delivery.expires.millisecondsSince1970 > run.began, "'\(id)' had expired already")
            #expect(
                delivery.accepted.millisecondsSince1970 >= sent.due, "'\(id)' came before its time")
            #expect(sent.number.map { $0 == delivery.messageNumber } ?? true, "MSG-6: '\(id)'")
            #expect(mode != .dozes || delivery.priority == .high, "PRI-1: '\(id)' came in a doze")
            guard delivery.isStored else { continue }
            notePlace(delivery.streamID, of: id)
            if mode == .awake { #expect(delivery.streamID > last, "TTL-4: '\(id)' is late") }
            last = delivery.streamID
        }
    }

    private func notePlace(_ sequence: UInt64, of id: String) {
        if let known = places.updateValue(sequence, forKey: id) {
            #expect(known == sequence, "'\(id)' was sent twice")
        }
    }

    // MARK: The store

    func verify(_ devices: [Int: DeviceLoad], _ batch: BatchLoad) throws {
        let store = try Store(StoreConfiguration(folder: folder))
        let report = try store.check()
        #expect(report.isClean, "\(report.problems.prefix(20))")

        for (index, load) in devices {
            let found = try topics(index, in: store).filter { $0.hasPrefix("churn") }
            var allowed: Set<Set<String>> = [load.topics]
            if let open = load.open { allowed.insert(Self.apply(open, to: load.topics)) }
            #expect(
                allowed.contains(found), "device \(index): an acknowledged subscription is lost")
            deviceTopics[index] = found
        }
        // A request for so few tokens is applied in one transaction: all fifty or none.
        var batches: Set<Set<String>> = []
        for index in Self.batched {
            batches.insert(try topics(index, in: store).filter { $0.hasPrefix("batch") })
        }
        #expect(batches.count == 1, "a request was applied in part")
        var allowed: Set<Set<String>> = [batch.topics]
        if let open = batch.open { allowed.insert(Self.apply(open, to: batch.topics)) }
        #expect(allowed.isSuperset(of: batches))
        batchTopics = batches.first ?? []
        try verifyMailboxes(store)
    }

    private func verifyMailboxes(_ store: Store) throws {
        // One instant for everything: messages expire while this looks for them.
        let now = wallClock
        let replaced = replaced()
        let forbidden = gone.union(replaced.certainly)
        let spared = forbidden.union(replaced.perhaps).union(loose)
        var missing: [Int: Set<String>] = [:]
        for sent in accepted.values
        where sent.lives > now && sent.due <= dueThrough && !spared.contains(sent.id) {
            for index in sent.recipients { missing[index, default: []].insert(sent.id) }
        }
        for index in instances.indices {
            let found = try pending(index, in: store, at: now)
            #expect(Set(found.map(\.id)).count == found.count, "a message is stored twice")
            for one in found {
                let id = one.id
                notePlace(one.sequence, of: id)
                #expect(!forbidden.contains(id), "'\(id)' was replaced, cancelled or never stored")
                let sent = try #require(accepted[id] ?? uncertain[id], "'\(id)' was never sent")
                #expect(
                    sent.recipients.contains(index),
                    "instance \(index) would get '\(id)', which is not for it")
                #expect(sent.dies > now, "'\(id)' has expired")
                #expect(sent.due <= now, "'\(id)' is not due yet")
                if sent.isScheduled { counts.scheduled += 1 }
            }
            // Only what the device itself has acknowledged may be gone.
            let lost = (missing[index] ?? []).subtracting(found.map(\.id))
                .subtracting(acknowledgedMessages[index] ?? [])
            let lostMessages = lost.sorted().map { accepted[$0]! }
            #expect(lost.isEmpty, "instance \(index) at \(now): lost are \(lostMessages)")
        }
    }

    private static func apply(
        _ change: (topic: String, operation: TopicOperation), to topics: Set<String>
    ) -> Set<String> {
        change.operation == .subscribe
            ? topics.union([change.topic]) : topics.subtracting([change.topic])
    }

    // MARK: Receipts

    /// RCP-1: what devices told is kept, each once, and nothing else, until a sender has taken it.
    func verifyReceipts() throws {
        var kept = told
        var perhapsKept: Set<Told> = []
        for isAnswered in [true, false, true] {
            let server = try Server(folder: folder)
            let client = try WireClient(port: server.port)
            let events = try receipts(client, countMin: kept.count)
            let found = Set(events.map(Self.told))
            #expect(found.count == events.count, "a receipt came twice")
            #expect(zip(events, events.dropFirst()).allSatisfy { $0.eventID < $1.eventID })
            #expect(found.isSuperset(of: kept) && found.isSubset(of: kept.union(perhapsKept)))
            let count = events.count / 2
            guard count > 0 else { break }
            client.send(ReceiptAcknowledge(through: events[count - 1].eventID))
            if isAnswered { try waitForAnswer(client) }
            server.kill9()
            let taken = Set(events[..<count].map(Self.told))
            kept = found.subtracting(taken)
            perhapsKept = isAnswered ? [] : taken
        }
    }

    /// What a connection asked before has been done when it is answered what it asks now.
    private func waitForAnswer(_ client: WireClient) throws {
        client.send(
            SendRequest(
                correlation: 2, target: .topic("nobody"),
                message: try Message(data: ["id": "last"]).encoded()))
        guard case .accepted = try client.receive() else {
            throw WireClient.Failure(text: "instead of ACCEPTED something else")
        }
    }

    private static func told(_ event: ReceiptEvent) -> Told {
        Told(messageNumber: event.messageNumber, token: event.token)
    }

    private func receipts(_ client: WireClient, countMin: Int) throws -> [ReceiptEvent] {
        #expect(try client.hello(sender))
        client.send(ListenReceiptsRequest(correlation: 1))
        guard case .done = try client.receive() else {
            throw WireClient.Failure(text: "instead of DONE something else")
        }
        var events: [ReceiptEvent] = []
        var isPinged = false
        while true {
            if events.count >= countMin, !isPinged {
                isPinged = true
                client.send(Ping(value: 1))
            }
            switch try client.receive() {
            case .receiptEvent(let event):
                #expect(event.kind == .opened)
                events.append(event)
            case .pong: return events
            case let other: throw WireClient.Failure(text: "\(other as Any)")
            }
        }
    }
}
