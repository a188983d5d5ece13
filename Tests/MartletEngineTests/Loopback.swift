// SPDX-License-Identifier: Apache-2.0
//
// A world for one `Delivery`: messages that are accepted, mailboxes that keep them, connections that
// take bytes. It does what a loop does with sockets and store, and remembers with dictionaries who
// has to get what. Rests on MartletEngine and MartletBits.

import Glibc
import MartletBase
import MartletBits
import MartletEngine
import Testing

struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func chance(_ percent: Int) -> Bool { Int(next() % 100) < percent }
    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }
}

struct Address: Hashable {
    var project: UInt32
    var ordinal: UInt32
}

/// An accepted message.
struct Accepted {
    var fanout: Fanout
    var recipients: Set<UInt32>
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
    /// It has everything up to here already.
    var start: UInt64
    var inFlight: [iovec]?
    var bytes: [UInt8] = []
    var stored: [UInt64] = []
    var passing: [UInt64] = []
    /// The broker does not count on it any more.
    var isReplaced = false
    /// Never takes a byte.
    var isStuck = false
}

final class Loopback {
    var delivery: Delivery
    let capacity: UInt32
    private(set) var messages: [UInt32: [Accepted]] = [:]
    private var passing: [UInt64: Accepted] = [:]
    private(set) var connections: [UInt32: Connection] = [:]
    /// What the store knows to be acknowledged.
    private(set) var watermarks: [Address: UInt64] = [:]
    /// What arrived whole, on any connection.
    private(set) var arrived: [Address: Set<UInt64>] = [:]
    private var connectionCount: UInt64 = 0
    private let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 64)

    init(capacity: UInt32) {
        self.capacity = capacity
        delivery = Delivery(capacity: Int(capacity), looksPerSend: 0)
    }

    deinit { vectors.deallocate() }

    var open: [UInt32] { connections.keys.sorted() }
    var freeIndex: UInt32? { (0..<capacity).first { connections[$0] == nil } }

    func last(_ project: UInt32) -> UInt64 {
        messages[project]?.last { $0.isStored }?.sequence ?? 0
    }

    func step(budget: Int) -> Bool { delivery.step(budget: budget, now: .longAgo) }
    var hasAcknowledgements: Bool { delivery.hasAcknowledgements }

    // MARK: Connections

    /// Connects an instance that says it has taken everything up to `received`.
    @discardableResult
    func connect(_ address: Address, at index: UInt32, received: UInt64 = 0) -> UInt32? {
        let watermark = watermarks[address] ?? 0
        connectionCount += 1
        delivery.open(index)
        let before = connections.first {
            $0.value.address == address && !$0.value.isReplaced
        }?.key
        let replaced = delivery.attach(
            index, project: ProjectNumber(address.project), ordinal: Ordinal(address.ordinal),
            acknowledgedThrough: MessageSequence(watermark),
            receivedThrough: MessageSequence(received), connectionNumber: connectionCount)
        #expect(replaced == before, "NET-4: the old connection is told, and no other")
        if let replaced { connections[replaced]!.isReplaced = true }
        connections[index] = Connection(address: address, start: max(watermark, received))
        return replaced
    }

    func stick(_ index: UInt32) { connections[index]!.isStuck = true }

    func close(_ index: UInt32) {
        if connections[index]!.inFlight != nil { delivery.sent(index, byteCount: 0) }
        delivery.close(index)
        connections[index] = nil
    }

    // MARK: Messages

    enum Entry { case live, postponed }

    /// Accepts a message and tells the loop.
    @discardableResult
    func accept(
        _ project: UInt32, to ordinals: Set<UInt32>, bodyBytes: Int, isStored: Bool = true,
        single: Bool = false, _ entry: Entry = .live
    ) -> Accepted {
        let sequence =
            isStored
            ? last(project) + 1
            : MessageSequence.notStoredBit | UInt64(passing.count) << 8 | UInt64(project)
        let body = (0..<bodyBytes).map { UInt8(truncatingIfNeeded: sequence &* 31 &+ UInt64($0)) }
        let recipients: Recipients
        if single, ordinals.count == 1, let one = ordinals.first {
            recipients = .one(Ordinal(one))
        } else {
            var builder = RecipientSetBuilder()
            let blocks = Dictionary(grouping: ordinals) { $0 >> 15 }
            for (block, members) in blocks.sorted(by: { $0.key < $1.key }) {
                var buffer = BlockBuffer()
                for member in members { buffer.insert(bit: Int(member & 0x7FFF)) }
                builder.append(block: block, view: buffer.view, count: members.count)
            }
            recipients = .many(builder.finish())
        }
        let header = MessageHeader(
            sequence: MessageSequence(sequence), accepted: Instant(millisecondsSince1970: 0),
            expires: Instant(millisecondsSince1970: .max), kind: .topic, priority: .normal, from: ""
        )
        let accepted = Accepted(
            fanout: Fanout(
                project: ProjectNumber(project), header: header, body: body, recipients: recipients,
                position: MessageSequence(isStored ? sequence : last(project))),
            recipients: ordinals)
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
            write(accepted.frame, .shared)
            delivery.enqueue(accepted.fanout, byteCount: accepted.frame.count)
        }
        return accepted
    }

    private func write(_ frame: [UInt8], _ kind: FrameKind) {
        // More than is needed is reserved, as a loop does that does not know the length before.
        let room = delivery.reserve(frame.count + 100, kind)
        room.copyBytes(from: frame)
    }

    /// Stored messages of an instance above `sequence`.
    func mailbox(_ address: Address, after sequence: UInt64) -> [Accepted] {
        (messages[address.project] ?? []).filter {
            $0.sequence > sequence && $0.recipients.contains(address.ordinal)
        }
    }

    /// Lets the next session that is behind read its mailbox. Says whether there was one.
    @discardableResult
    func catchUpOne() -> Bool {
        guard let next = delivery.nextBehind() else { return false }
        let address = Address(project: next.project.rawValue, ordinal: next.ordinal.rawValue)
        #expect(connections[next.index]?.address == address)
        for message in mailbox(address, after: next.after.rawValue) {
            write(message.frame, .direct)
            guard
                delivery.catchUp(
                    next.index, message.fanout.header.sequence, byteCount: message.frame.count)
            else { return true }
        }
        delivery.caughtUp(next.index, through: MessageSequence(last(address.project)))
        return true
    }

    // MARK: Bytes

    /// Begins the send of the next ready session.
    @discardableResult
    func sendOne(vectorsMax: Int = 64) -> UInt32? {
        guard let index = delivery.nextReady() else { return nil }
        #expect(connections[index]?.inFlight == nil, "one send in flight per connection")
        let count = delivery.gather(
            index, into: UnsafeMutableBufferPointer(rebasing: vectors[..<vectorsMax]))
        #expect(count > 0)
        connections[index]!.inFlight = Array(vectors[..<count])
        return index
    }

    func inFlightBytes(_ index: UInt32) -> Int {
        connections[index]!.inFlight?.reduce(0) { $0 + $1.iov_len } ?? 0
    }

    /// The send in flight ends after `byteCount` bytes; only now are they read.
    func completeSend(_ index: UInt32, byteCount: Int) {
        var left = byteCount
        for vector in connections[index]!.inFlight! where left > 0 {
            let count = min(left, vector.iov_len)
            connections[index]!.bytes += UnsafeRawBufferPointer(
                start: vector.iov_base, count: count)
            left -= count
        }
        connections[index]!.inFlight = nil
        delivery.sent(index, byteCount: byteCount)
        decode(index)
    }

    private func decode(_ index: UInt32) {
        var connection = connections[index]!
        var at = 0
        while connection.bytes.count - at >= 4 {
            let length = connection.bytes.withUnsafeBytes {
                Int(UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: at, as: UInt32.self)))
            }
            guard length >= 16, length < 100_000 else {
                Issue.record("session \(index): a frame of \(length) bytes")
                break
            }
            guard connection.bytes.count - at >= length else { break }
            let frame = Array(connection.bytes[at..<(at + length)])
            at += length
            let (project, sequence) = frame.withUnsafeBytes {
                (
                    UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: 4, as: UInt32.self)),
                    UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                )
            }
            let isStored = sequence & MessageSequence.notStoredBit == 0
            let message =
                isStored
                ? messages[project]?.first { $0.sequence == sequence } : passing[sequence]
            guard let message, project == connection.address.project, message.frame == frame,
                message.recipients.contains(connection.address.ordinal)
            else {
                Issue.record(
                    "session \(index) got a frame that is not its own: \(project) \(sequence)")
                continue
            }
            if isStored {
                connection.stored.append(sequence)
                arrived[connection.address, default: []].insert(sequence)
            } else {
                connection.passing.append(sequence)
            }
        }
        connection.bytes.removeFirst(at)
        // What arrived is the beginning of the mailbox, in order and each once.
        let expected = mailbox(connection.address, after: connection.start).map(\.sequence)
        #expect(connection.stored == Array(expected.prefix(connection.stored.count)))
        #expect(Set(connection.passing).count == connection.passing.count)
        connections[index] = connection
    }

    /// Everything that can be done is done, but for sessions that are stuck.
    func settle() {
        var isBusy = true
        while isBusy {
            isBusy = delivery.step(budget: 1000, now: .longAgo)
            while catchUpOne() { isBusy = true }
            while sendOne() != nil { isBusy = true }
            for index in open where !connections[index]!.isStuck {
                guard connections[index]!.inFlight != nil else { continue }
                completeSend(index, byteCount: inFlightBytes(index))
                isBusy = true
            }
        }
    }

    // MARK: Acknowledging

    func acknowledge(_ index: UInt32, through: UInt64, single: [UInt64] = []) -> Bool {
        delivery.acknowledge(index, through: through, single: single)
    }

    /// What the committer is told, checked against what has arrived.
    func takeAcknowledgements() {
        for one in delivery.takeAcknowledgements() {
            let address = Address(project: one.project.rawValue, ordinal: one.ordinal.rawValue)
            let through = one.through.rawValue
            let lost = mailbox(address, after: watermarks[address] ?? 0).filter {
                $0.sequence <= through && !(arrived[address] ?? []).contains($0.sequence)
            }
            #expect(lost.isEmpty, "messages are counted as acknowledged that never arrived")
            watermarks[address] = max(watermarks[address] ?? 0, through)
        }
    }
}

extension Instant {
    /// Before anything of these tests expires.
    static let longAgo = Instant(millisecondsSince1970: 0)
}
