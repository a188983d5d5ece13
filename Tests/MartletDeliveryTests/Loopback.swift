// SPDX-License-Identifier: Apache-2.0
//
// A world for one `Delivery`: messages that are accepted, mailboxes that keep them, connections that
// take bytes. It does what a loop does with sockets and store, and remembers with dictionaries who
// has to get what. Rests on MartletEngine and MartletBits.

import Glibc
import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import Testing

struct Address: Hashable {
    var project: UInt32
    var ordinal: UInt32
}

/// An accepted message.
struct Accepted {
    var fanout: Fanout
    var recipients: Set<UInt32>
    /// What it replaces; nil: not collapsible.
    var key: CollapseDigest?
    /// Brought forward by cancelling.
    var expires: Instant
    var sequence: UInt64 { fanout.header.sequence.rawValue }
    var isStored: Bool { fanout.header.sequence.isStored }

    /// Length, project, sequence, and bytes that follow from them.
    var frame: [UInt8] {
        let length = fanout.body.count + 16
        var bytes: [UInt8] = []
        withUnsafeBytes(of: UInt32(length).littleEndian) { bytes += $0 }
        withUnsafeBytes(of: fanout.project.rawValue.littleEndian) { bytes += $0 }
        withUnsafeBytes(of: sequence.littleEndian) { bytes += $0 }
        return bytes + fanout.body
    }
}

/// One connection and what came through it.
struct Connection {
    var address: Address
    /// It has everything up to here already, and `taken`.
    var start: UInt64
    var taken: Set<UInt64>
    var inFlight: [iovec]?
    var bytes: [UInt8] = []
    var stored: [UInt64] = []
    var number: UInt64 = 0
    var passing: [UInt64] = []
    /// Notices of what was discarded.
    var deleted: [(through: UInt64, count: UInt64)] = []
    /// The last message that was accepted before it began to doze.
    var dozesSince: UInt64?
    var isSettled = false
    /// The broker does not count on it any more.
    var isReplaced = false
    /// Never takes a byte.
    var isStuck = false
}

final class Loopback {
    var delivery: Delivery
    let capacity: UInt32
    /// Nothing is held back, collapsed or discarded here: what arrives can be told exactly.
    private let limits: BrokerLimits
    let isPlain: Bool
    var now = Instant(millisecondsSince1970: 0)
    /// Rows of a log that one reading looks at.
    var rowsMax = Int.max
    private(set) var messages: [UInt32: [Accepted]] = [:]
    var passing: [UInt64: Accepted] = [:]
    var connections: [UInt32: Connection] = [:]
    /// What the store knows of each instance.
    private(set) var states: [Address: MailboxState] = [:]
    private(set) var singles: [Address: Set<UInt64>] = [:]
    /// What the instance said in HELLO to have taken, or has acknowledged.
    private var taken: [Address: Set<UInt64>] = [:]
    /// What arrived whole, on any connection.
    var arrived: [Address: Set<UInt64>] = [:]
    var arrivalCounts: [Address: [UInt64]] = [:]
    var deletedThrough: [Address: UInt64] = [:]
    private var connectionCount: UInt64 = 0
    let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 64)

    init(capacity: UInt32, limits: BrokerLimits = .none) {
        self.capacity = capacity
        isPlain = limits == .none
        self.limits = limits
        delivery = Delivery(capacity: Int(capacity), limits: limits)
    }

    deinit { vectors.deallocate() }

    var open: [UInt32] { connections.keys.sorted() }
    var freeIndex: UInt32? { (0..<capacity).first { connections[$0] == nil } }

    func last(_ project: UInt32) -> UInt64 {
        messages[project]?.last { $0.isStored }?.sequence ?? 0
    }

    func step(budget: Int) -> Bool { delivery.step(budget: budget, now: now) }
    var hasAcknowledgements: Bool { delivery.hasAcknowledgements }

    // MARK: Connections

    /// What the store says of an instance. Before it connects for the first time: nothing.
    func state(_ address: Address) -> MailboxState {
        states[address]
            ?? MailboxState(
                acknowledged: LaneMarks(.none), awayFrom: .none,
                throttleFull: Instant(rawValue: 0), seen: Instant(rawValue: 0))
    }

    func watermark(_ address: Address) -> UInt64 { state(address).acknowledged.lowest.rawValue }

    /// Connects an instance that says what it has taken.
    @discardableResult
    func connect(
        _ address: Address, at index: UInt32, taken: [UInt64] = [], state: DeviceState = .active,
        isStored: Bool = true
    ) -> UInt32? {
        connectionCount += 1
        self.taken[address, default: []].formUnion(taken)
        delivery.open(index)
        let before = connections.first {
            $0.value.address == address && !$0.value.isReplaced
        }?.key
        let known = self.state(address)
        let replaced = delivery.attach(
            index,
            Attachment(
                owner: MailboxOwner(
                    project: ProjectNumber(address.project), ordinal: Ordinal(address.ordinal),
                    platform: .android, appKey: CollapseDigest(rawValue: 0)),
                holder: address.holder, mailbox: known,
                position: MessageSequence(last(address.project)), state: state, taken: taken,
                connectionNumber: connectionCount), now: now)
        #expect(replaced == before, "NET-4: the old connection is told, and no other")
        var start = known.acknowledged.lowest.rawValue
        if let replaced {
            connections[replaced]!.isReplaced = true
            start = max(start, acknowledgedHere[replaced] ?? 0)
        }
        acknowledgedHere[index] = start
        connections[index] = Connection(
            address: address, start: start,
            taken: Set(taken).union(singles[address] ?? []),
            dozesSince: state == .doze ? last(address.project) : nil)
        connections[index]!.number = connectionCount
        if isStored { store(index) }
        return replaced
    }

    /// OPS-7: a row of another node discards the messages of an instance up to a sequence.
    /// - Parameter notice: the notice's own stream ID, if it has one.
    func discard(
        _ address: Address, through sequence: UInt64, count: UInt64, notice: UInt64 = 0
    ) {
        var state = state(address)
        (state.discardedCount, state.discardedThrough) = (count, MessageSequence(sequence))
        state.noticeStreamID = MessageSequence(notice)
        states[address] = state
    }

    /// How often the store cannot write what a doze discards.
    var refusalsLeft = 0

    /// The store is told of a connection: it sees to what the absence before it discarded, or to what a doze
    /// does (STO-1).
    private func store(_ index: UInt32) {
        let address = connections[index]!.address
        let start = delivery.connectionStart(of: index)
        var state = state(address)
        let absence =
            start.held ?? .away(from: state.awayFrom, through: start.position)
        var replay = MailboxReplay(
            limits: limits, after: state.logStart, absence: absence,
            discarded: state.discardedCount > 0
                ? (state.discardedCount, state.discardedThrough) : nil)
        for message in mailbox(address, after: state.logStart.rawValue)
        where message.sequence <= absence.through.rawValue {
            replay.add(entry(message, address))
        }
        if let overflow = replay.overflow, overflow.through > state.discardedThrough {
            (state.discardedCount, state.discardedThrough) = overflow
            state.noticeStreamID = .none
        }
        if start.held == nil {
            (state.awayFrom, state.awayThrough) = (start.position, start.position)
        }
        states[address] = state
        delivery.stored(index, connectionNumber: connections[index]!.number)
    }

    /// What open sessions have acknowledged, whether the store knows it or not.
    private var acknowledgedHere: [UInt32: UInt64] = [:]

    func setState(_ index: UInt32, _ state: DeviceState) {
        delivery.setState(index, state)
        let address = connections[index]!.address
        if state != .doze {
            if connections[index]!.dozesSince != nil { connections[index]!.isSettled = false }
            connections[index]!.dozesSince = nil
        } else if connections[index]!.dozesSince == nil {
            connections[index]!.dozesSince = last(address.project)
        }
    }

    func stick(_ index: UInt32) { connections[index]!.isStuck = true }

    func close(_ index: UInt32) {
        if connections[index]!.inFlight != nil { delivery.sent(index, byteCount: 0) }
        delivery.close(index, now: now)
        connections[index] = nil
        acknowledgedHere[index] = nil
    }

    // MARK: Messages

    enum Entry { case live, postponed }

    /// What bodies are parts of.
    private static let ascending = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }

    /// Accepts a message and tells the loop.
    @discardableResult
    func accept(
        _ project: UInt32, to ordinals: Set<UInt32>, bodyBytes: Int, isStored: Bool = true,
        single: Bool = false, priority: MessagePriority = .normal, key: UInt64? = nil,
        secondsToLive: Int64? = nil, _ entry: Entry = .live
    ) -> Accepted {
        let sequence =
            isStored
            ? last(project) + 1
            : MessageSequence.nowOrNeverBit | UInt64(passing.count) << 8 | UInt64(project)
        let first = Int(sequence &* 31 & 0xFF)
        let body = Array(Self.ascending[first..<first + bodyBytes])
        let recipients: Recipients
        if single, ordinals.count == 1, let one = ordinals.first {
            recipients = .one(Ordinal(one))
        } else {
            var builder = RecipientSetBuilder()
            let blocks = Dictionary(grouping: ordinals) { $0 >> 15 }
            for (block, members) in blocks.sorted(by: { $0.key < $1.key }) {
                var buffer = BlockBuffer()
                for member in members { buffer.insert(bit: Int(member & 0x7FFF)) }
                builder.append(block: block, buffer: buffer, count: members.count)
            }
            recipients = .many(builder.finish())
        }
        let expires =
            secondsToLive.map { now.advanced(bySeconds: $0) } ?? Instant(rawValue: .max)
        let header = MessageHeader(
            sequence: MessageSequence(sequence), number: sequence, accepted: now, expires: expires,
            kind: .topic, priority: priority, isCollapsible: key != nil, from: "")
        let accepted = Accepted(
            fanout: Fanout(
                project: ProjectNumber(project), header: header, body: body, recipients: recipients,
                position: MessageSequence(isStored ? sequence : last(project))),
            recipients: ordinals, key: key.map { CollapseDigest(rawValue: $0) }, expires: expires)
        if isStored {
            messages[project, default: []].append(accepted)
        } else {
            passing[sequence] = accepted
        }
        guard delivery.concerns(accepted.fanout) else {
            delivery.skip(accepted.fanout)
            return accepted
        }
        switch entry {
        case .postponed: delivery.postpone(accepted.fanout)
        case .live:
            write(accepted.frame, accepted.fanout.frameKind)
            delivery.enqueue(accepted.fanout, byteCount: accepted.frame.count, now: now)
        }
        return accepted
    }

    private func write(_ frame: [UInt8], _ kind: FrameKind) {
        // More than is needed is reserved, as a loop does that does not know the length before.
        let room = delivery.reserve(frame.count + 100, kind)
        room.copyBytes(from: frame)
    }

    /// MSG-10: a message ends now.
    func cancel(_ project: UInt32, _ sequence: UInt64) {
        let at = Int(clamping: sequence) - 1
        guard messages[project]?.indices.contains(at) == true else { return }
        messages[project]![at].expires = min(messages[project]![at].expires, now)
        delivery.cancel(MessageSequence(sequence), in: ProjectNumber(project))
    }

    /// Stored messages of an instance above `sequence`.
    func mailbox(_ address: Address, after sequence: UInt64) -> [Accepted] {
        log(address.project, after: sequence).filter { $0.recipients.contains(address.ordinal) }
    }

    /// Stored messages of a project above `sequence`: the first has sequence 1, and none is left out.
    func log(_ project: UInt32, after sequence: UInt64) -> ArraySlice<Accepted> {
        (messages[project] ?? []).dropFirst(Int(clamping: sequence))
    }

    /// What a session that is not replaced is to get here, in order, where everything is delivered:
    /// but for what the instance has told of, which it may get.
    func expected(_ connection: Connection) -> [UInt64] {
        mailbox(connection.address, after: connection.start).map(\.sequence).filter {
            !isTaken($0, connection.address)
        }
    }

    func isTaken(_ sequence: UInt64, _ address: Address) -> Bool {
        taken[address]?.contains(sequence) == true
    }

    private func entry(_ message: Accepted, _ address: Address) -> LogEntry {
        let header = message.fanout.header
        var entry = LogEntry(
            sequence: header.sequence, accepted: header.accepted, expires: message.expires,
            priority: header.priority, content: .message(collapse: message.key))
        entry.isAcknowledged =
            header.sequence <= state(address).acknowledged[entry.lane]
            || singles[address]?.contains(message.sequence) == true
        return entry
    }

    /// Lets the next session that is behind read its mailbox. Says whether there was one.
    @discardableResult
    func catchUpOne() -> Bool {
        guard var reading = delivery.nextReading() else { return false }
        let address = Address(
            project: reading.owner.project.rawValue, ordinal: reading.owner.ordinal.rawValue)
        #expect(connections[reading.index]?.address == address)
        reading = delivery.refresh(reading, state(address), now: now)
        var plan: MailboxPlan?
        let rows = log(address.project, after: reading.after.rawValue)
        for message in rows.prefix(rowsMax) where message.recipients.contains(address.ordinal) {
            reading.add(entry(message, address))
        }
        if rows.count > rowsMax {
            plan = delivery.pause(
                reading, through: MessageSequence(rows.prefix(rowsMax).last!.sequence), now: now)
        } else {
            plan = delivery.finish(
                reading, through: MessageSequence(last(address.project)), now: now)
        }
        guard var plan else { return true }
        for step in plan.steps {
            switch step {
            case .deleted(let through, let count):
                guard delivery.hasRoom(plan.index) else { return true }
                let frame = Self.notice(address.project, through.rawValue, count)
                write(frame, .direct)
                guard
                    delivery.catchUp(deletedThrough: through, of: plan, byteCount: frame.count)
                else { return true }
            case .message(let entry):
                switch delivery.offer(entry, of: &plan, now: now) {
                case .held: continue
                case .full: return true
                case .open: break
                }
                let message = message(address.project, entry.sequence.rawValue)
                write(message.frame, .direct)
                guard
                    delivery.catchUp(entry, of: plan, byteCount: message.frame.count, now: now)
                else { return true }
            }
        }
        delivery.caughtUp(plan)
        if connections[plan.index]!.dozesSince == nil { connections[plan.index]!.isSettled = true }
        return true
    }

    /// Stored messages that an instance got, over all its connections, each as often as it came.
    func arrivals(_ address: Address) -> [UInt64] { arrivalCounts[address] ?? [] }

    func message(_ project: UInt32, _ sequence: UInt64) -> Accepted {
        messages[project]![Int(sequence) - 1]
    }

    /// Everything that can be done is done, but for sessions that are stuck.
    func checkInvariants() {
        let broken = delivery.brokenInvariant()
        #expect(broken == nil)
    }

    func settle() {
        var isBusy = true
        while isBusy {
            isBusy = delivery.step(budget: 1000, now: now)
            while let index = delivery.nextOverfull() {
                isBusy = true
                if refusalsLeft > 0 {
                    refusalsLeft -= 1
                    delivery.notStored(index)
                } else {
                    store(index)
                }
            }
            while catchUpOne() { isBusy = true }
            while sendOne() != nil { isBusy = true }
            checkInvariants()
            for index in open where !connections[index]!.isStuck {
                guard connections[index]!.inFlight != nil else { continue }
                completeSend(index, byteCount: inFlightBytes(index))
                isBusy = true
            }
        }
    }

    // MARK: Acknowledging

    func acknowledge(_ index: UInt32, through: UInt64, single: [UInt64] = []) -> Bool {
        let isTaken = delivery.acknowledge(index, through: through, single: single)
        if isTaken { acknowledgedHere[index] = max(acknowledgedHere[index] ?? 0, through) }
        return isTaken
    }

    /// What the committer is told, checked against what has arrived.
    func takeAcknowledgements() {
        for one in delivery.takeAcknowledgements() {
            let address = Address(project: one.project.rawValue, ordinal: one.ordinal.rawValue)
            #expect(one.holder == address.holder)
            var state = state(address)
            if isPlain {
                #expect(one.through.isEven)
                let lost = mailbox(address, after: state.acknowledged.lowest.rawValue).filter {
                    $0.sequence <= one.through.lowest.rawValue
                        && !(arrived[address] ?? []).contains($0.sequence)
                }
                #expect(lost.isEmpty, "messages are counted as acknowledged that never arrived")
            }
            state.acknowledged.formMaximum(one.through)
            if one.single.contains(state.notice.rawValue) { state.discardedCount = 0 }
            // A connection that began before this was known need not give it again.
            let here = arrived[address] ?? []
            taken[address, default: []].formUnion(
                here.filter { $0 <= one.through.lowest.rawValue })
            singles[address, default: []].formUnion(one.single)
            if let departure = one.departure {
                state.awayFrom = max(state.awayFrom, departure.position)
                state.awayThrough = MessageSequence(.max)
                state.throttleFull = departure.throttleFull
                state.seen = departure.seen
            }
            states[address] = state
        }
        delivery.acknowledgementsSettled(delivery.lastBatch, areStored: true)
    }
}

extension Address {
    /// Whose ordinal it is: always the same one's.
    var holder: Holder {
        var bytes = [UInt8](repeating: 0, count: 32)
        bytes[3] = UInt8(truncatingIfNeeded: project)
        bytes[4] = UInt8(truncatingIfNeeded: ordinal >> 16)
        bytes[5] = UInt8(truncatingIfNeeded: ordinal >> 8)
        bytes[6] = UInt8(truncatingIfNeeded: ordinal)
        return Holder(keyDigest: SecretDigest(bytes: bytes))
    }
}

extension Instant {
    /// Before anything of these tests expires.
    static let longAgo = Instant(millisecondsSince1970: 0)
}
