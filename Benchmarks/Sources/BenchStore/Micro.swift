// SPDX-License-Identifier: Apache-2.0
//
// The delivery path without a kernel: what a loop does between hearing of a message and handing
// sends over, in nanoseconds and in bytes allocated. Sends end at once, whole. Rests on the engine.

import Glibc
import Martlet
import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import MartletWire

enum Micro {
    static let sessions = 10_000

    static func measure() {
        frames()
        // One message, sixteen with the same recipients, sixteen whose recipients are equal sets but
        // not known to be.
        deliver("delivery, one message a turn", messages: 1, isShared: true)
        deliver("delivery, 16 messages with the same recipients", messages: 16, isShared: true)
        deliver("delivery, 16 messages with recipients of their own", messages: 16, isShared: false)
    }

    /// Bytes that this thread has allocated, as jemalloc counts them; nil without it.
    static let allocated: (@Sendable () -> UInt64)? = {
        typealias Control =
            @convention(c) (
                UnsafePointer<CChar>, UnsafeMutableRawPointer?, UnsafeMutablePointer<Int>?,
                UnsafeMutableRawPointer?, Int
            ) -> Int32
        guard let symbol = dlsym(nil, "mallctl") else { return nil }
        let control = unsafeBitCast(symbol, to: Control.self)
        return {
            var bytes: UInt64 = 0
            var size = MemoryLayout<UInt64>.size
            return control("thread.allocated", &bytes, &size, nil, 0) == 0 ? bytes : 0
        }
    }()

    static func frames() {
        let body = [UInt8](repeating: 0x78, count: 140)
        var from = "/topics/bench"
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 512, alignment: 8)
        defer { memory.deallocate() }
        let count = 1_000_000
        let (heap, began) = (allocated?() ?? 0, nanoseconds())
        from.withUTF8 { from in
            body.withUnsafeBytes { body in
                for number in 0..<count {
                    _ = DeliverHeader.write(
                        streamID: UInt64(number), accepted: Instant(rawValue: 0),
                        expires: Instant(rawValue: 0), kind: .topic, priority: .normal,
                        options: MessageOptions(), ownNumber: nil,
                        from: UnsafeRawBufferPointer(from), body: body, into: memory)
                }
            }
        }
        report([
            "kind": "DELIVER frame of 140 bytes written", "count": count,
            "nanoseconds": Double(nanoseconds() - began) / Double(count),
            "bytesAllocated": allocated.map { Double($0() - heap) / Double(count) } ?? -1,
        ])
    }

    static func deliver(_ kind: String, messages: Int, isShared: Bool) {
        let project = ProjectNumber(1)
        let now = Instant(rawValue: 0)
        var delivery = Delivery(capacity: sessions)
        for index in 0..<UInt32(sessions) {
            delivery.open(index)
            _ = delivery.attach(
                index,
                Attachment(
                    owner: MailboxOwner(
                        project: project, ordinal: Ordinal(index), platform: .android,
                        appKey: CollapseDigest(rawValue: 0)),
                    holder: Holder(
                        keyDigest: SecretDigest(bytes: [UInt8](repeating: 0, count: 32))),
                    mailbox: MailboxState(
                        acknowledged: LaneMarks(.none), awayFrom: .none, throttleFull: now,
                        seen: now),
                    position: .none, connectionNumber: UInt64(index)), now: now)
        }
        while let reading = delivery.nextReading() {
            guard let plan = delivery.finish(reading, through: .none, now: now) else { continue }
            delivery.caughtUp(plan)
        }
        func recipients() -> RecipientSet {
            var buffer = BlockBuffer()
            for bit in 0..<sessions { _ = buffer.insert(bit: bit) }
            var builder = RecipientSetBuilder()
            builder.append(block: 0, buffer: buffer, count: sessions)
            return builder.finish()
        }
        let sets = (0..<messages).map { _ in recipients() }
        var sequence: UInt64 = 0
        let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 64)
        defer { vectors.deallocate() }
        let turns = 200
        var (stepping, sending, bytes, sends): (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        for turn in 0..<turns + 10 {
            let fanouts = (0..<messages).map { number in
                sequence += 1
                return Fanout(
                    project: project,
                    header: MessageHeader(
                        sequence: MessageSequence(sequence), number: sequence, accepted: now,
                        expires: Instant(rawValue: .max), kind: .topic, priority: .normal,
                        from: ""), body: [], recipients: .many(sets[isShared ? 0 : number]),
                    position: MessageSequence(sequence))
            }
            let (heap, began) = (allocated?() ?? 0, nanoseconds())
            for fanout in fanouts {
                _ = delivery.reserve(180, .shared)
                delivery.enqueue(fanout, byteCount: 180, now: now)
            }
            while delivery.step(budget: 1 << 20, now: now) {}
            let middle = nanoseconds()
            while let index = delivery.nextReady() {
                let count = delivery.gather(index, into: vectors)
                var total = 0
                for vector in 0..<count { total += vectors[vector].iov_len }
                delivery.sent(index, byteCount: total)
                sends += 1
            }
            let end = nanoseconds()
            guard turn >= 10 else {
                sends = 0
                continue
            }
            stepping += middle - began
            sending += end - middle
            bytes += (allocated?() ?? 0) - heap
        }
        let deliveries = Double(turns * messages * sessions)
        precondition(delivery.counters.delivered == UInt64((turns + 10) * messages * sessions))
        report([
            "kind": kind, "count": turns * messages * sessions,
            "nanoseconds": Double(stepping) / deliveries,
            "nanosecondsPerSend": Double(sending) / Double(sends),
            "bytesAllocated": allocated == nil ? -1 : Double(bytes) / deliveries,
        ])
    }
}
