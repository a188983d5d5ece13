// SPDX-License-Identifier: Apache-2.0
//
// What an entry of the submission ring costs through MartletRing: to prepare, and to have worked off
// by the kernel, for the two kinds that a fanout is made of: a gathered send to a connection, and the
// message from ring to ring. Beside it stands bench-ring, which submits NOPs. Rests on MartletRing.

import Glibc
import MartletRing
import MartletTransport

enum RingCosts {
    static let connections = 256
    static let turns = 2000
    static let bytes = 140

    static func measure() throws {
        var transport = try UringTransport(configuration: UringConfiguration())
        try sends(&transport)
        try wakes(&transport)
    }

    /// One send to each of 256 connections, then all completions; what the peers got is read between.
    static func sends(_ transport: inout UringTransport) throws {
        let port = try transport.listen(address: "127.0.0.1", port: 0)
        let peers = (0..<connections).map { _ in connected(to: port) }
        defer { for peer in peers { close(peer) } }
        var accepted: [ConnectionID] = []
        while accepted.count < connections {
            try transport.submitAndWait(timeoutMicroseconds: 100_000)
            while let event = transport.nextEvent() {
                if case .accepted(let connection) = event { accepted.append(connection) }
            }
        }
        let frame = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes, alignment: 8)
        frame.initializeMemory(as: UInt8.self, repeating: 0x78)
        let vector = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 1)
        vector[0] = iovec(iov_base: frame.baseAddress, iov_len: bytes)
        defer {
            frame.deallocate()
            vector.deallocate()
        }
        let taken = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 8)
        defer { taken.deallocate() }
        var (preparing, working): (UInt64, UInt64) = (0, 0)
        for _ in 0..<turns {
            let began = nanoseconds()
            for connection in accepted {
                transport.send(connection, vectors: UnsafeBufferPointer(vector))
            }
            let middle = nanoseconds()
            var sent = 0
            while sent < connections {
                try transport.submitAndWait(timeoutMicroseconds: nil)
                while let event = transport.nextEvent() {
                    if case .sent = event { sent += 1 }
                }
            }
            working += nanoseconds() - middle
            preparing += middle - began
            for peer in peers { _ = recv(peer, taken, 4096, 0) }
        }
        tell("send of \(bytes) bytes", entries: turns * connections, preparing, working)
    }

    /// Messages from the ring to itself, 256 a submission.
    static func wakes(_ transport: inout UringTransport) throws {
        let address = transport.address
        var (preparing, working): (UInt64, UInt64) = (0, 0)
        for _ in 0..<turns {
            let began = nanoseconds()
            for value in 0..<connections { transport.wake(address, value: UInt64(value)) }
            let middle = nanoseconds()
            var woken = 0
            while woken < connections {
                try transport.submitAndWait(timeoutMicroseconds: nil)
                while let event = transport.nextEvent() {
                    if case .woken = event { woken += 1 }
                }
            }
            working += nanoseconds() - middle
            preparing += middle - began
        }
        tell("message to a ring", entries: turns * connections, preparing, working)
    }

    static func tell(_ kind: String, entries: Int, _ preparing: UInt64, _ working: UInt64) {
        report([
            "kind": "SQE, \(kind): prepared", "count": entries,
            "nanoseconds": Double(preparing) / Double(entries),
        ])
        report([
            "kind": "SQE, \(kind): submitted, worked off and completed", "count": entries,
            "nanoseconds": Double(working) / Double(entries),
        ])
    }

    static func connected(to port: UInt16) -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        precondition(result == 0, "connect: \(String(cString: strerror(errno)))")
        return descriptor
    }
}
