// SPDX-License-Identifier: Apache-2.0
//
// Loopback's sockets: bytes that connections take, and the messages that are in them, each compared with
// what was accepted and with what its connection is to get. Rests on Loopback.

import Glibc
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import Testing

extension Loopback {
    private static let noticeBit: UInt64 = 1 << 62

    static func notice(_ project: UInt32, _ through: UInt64, _ count: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        withUnsafeBytes(of: UInt32(24).littleEndian) { bytes += $0 }
        withUnsafeBytes(of: project.littleEndian) { bytes += $0 }
        withUnsafeBytes(of: (through | noticeBit).littleEndian) { bytes += $0 }
        withUnsafeBytes(of: count.littleEndian) { bytes += $0 }
        return bytes
    }

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
            if sequence & Self.noticeBit != 0 {
                let count = frame.withUnsafeBytes {
                    UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
                }
                let through = sequence & ~Self.noticeBit
                connection.deleted.append((through, count))
                deletedThrough[connection.address] = max(
                    deletedThrough[connection.address] ?? 0, through)
                continue
            }
            let isStored = sequence & MessageSequence.nowOrNeverBit == 0
            let message =
                isStored
                ? log(project, after: sequence &- 1).first : passing[sequence]
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
                arrivalCounts[connection.address, default: []].append(sequence)
            } else {
                connection.passing.append(sequence)
            }
        }
        connection.bytes.removeFirst(at)
        check(connection)
        connections[index] = connection
    }

    private func check(_ connection: Connection) {
        #expect(Set(connection.passing).count == connection.passing.count)
        if isPlain {
            // What arrived is the beginning of the mailbox, in order and each once.
            let expected = expected(connection)
            let stored = connection.stored.filter { !isTaken($0, connection.address) }
            #expect(stored == Array(expected.prefix(stored.count)))
            #expect(connection.stored == connection.stored.sorted())
            #expect(connection.stored.allSatisfy { $0 > connection.start })
            #expect(connection.taken.isDisjoint(with: connection.stored))
            return
        }
        #expect(Set(connection.stored).count == connection.stored.count, "nothing comes twice")
        var marks = LaneMarks(.none)
        for sequence in connection.stored {
            let lane = message(connection.address.project, sequence).fanout.header.lane
            #expect(sequence > marks[lane].rawValue, "a lane is in order")
            marks[lane] = MessageSequence(sequence)
            #expect(!connection.taken.contains(sequence), "what was taken does not come again")
            if let since = connection.dozesSince, !lane.isHigh {
                #expect(sequence <= since, "PRI-1: normal messages wait for the end of the doze")
            }
        }
    }
}
