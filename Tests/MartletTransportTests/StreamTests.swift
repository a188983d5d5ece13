// SPDX-License-Identifier: Apache-2.0
//
// Bytes through real sockets: what was sent arrives, once and in order, at every bound of buffers,
// sends and connections.

import Foundation
import Glibc
import MartletTransport
import Synchronization
import Testing

@Suite("Streams", .serialized)
struct StreamTests {
    @Test("a connection is accepted and every byte comes back", arguments: Kernel.usual)
    func echo(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        try await together(
            {
                let counts = try serveEcho(kernel, port, connections: 1)
                #expect(counts.receivedByteCount == 5 + 3)
                #expect(counts.connectionsLeft == 0)
            },
            {
                let client = try BlockingClient(port: port.take())
                try client.send(Array("hello".utf8))
                try client.expect(Array("hello".utf8))
                try client.send(Array("you".utf8))
                try client.expect(Array("you".utf8))
            })
    }

    @Test(
        "ends of sends are no arrivals, and bytes, connections and wakes are",
        arguments: Kernel.usual)
    func arrivals(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            try transport.submitAndWait(timeoutMicroseconds: 0)
            var hasArrivals = transport.hasArrivals
            #expect(!hasArrivals)
            let client = try BlockingClient(port: port)
            try transport.submitAndWait(timeoutMicroseconds: 10_000_000)
            hasArrivals = transport.hasArrivals
            #expect(hasArrivals)
            var connection: ConnectionID?
            try drive(&transport) { _, event in
                if case .accepted(let id) = event { connection = id }
                return connection != nil
            }
            let id = try #require(connection)
            // Arms the receive.
            try transport.submitAndWait(timeoutMicroseconds: 0)
            while transport.nextEvent() != nil {}

            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 8, alignment: 8)
            defer { bytes.deallocate() }
            for hasBytes in [false, true, false] {
                let count = transport.arrivalCount
                if hasBytes { try client.send([5]) }
                transport.send(id, UnsafeRawBufferPointer(bytes))
                // A busy kernel may hand the bytes over after the end of the send.
                let deadline = Date(timeIntervalSinceNow: 60)
                repeat {
                    try transport.submitAndWait(timeoutMicroseconds: 10_000_000)
                    hasArrivals = transport.hasArrivals
                } while hasBytes && !hasArrivals && Date() < deadline
                if hasBytes {
                    let newCount = transport.arrivalCount
                    #expect(newCount != count)
                }
                #expect(hasArrivals == hasBytes)
                var hasEnded = false
                while let event = transport.nextEvent() {
                    if case .sent(id, byteCount: 8, errno: 0) = event { hasEnded = true }
                }
                #expect(hasEnded)
            }

            transport.waker.wake()
            try transport.submitAndWait(timeoutMicroseconds: 10_000_000)
            hasArrivals = transport.hasArrivals
            #expect(hasArrivals)
        }
    }

    @Test("IPv6 is listened on beside IPv4 on one port", arguments: Kernel.usual)
    func bothFamilies(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            // A machine without IPv6 refuses the address; then there is nothing to test.
            if let second = try? transport.listen(address: "::1", port: port) {
                #expect(second == port)
            }
            #expect(port != 0)
        }
    }

    @Test(
        "1 MiB goes through small buffers byte for byte, with short sends", arguments: Kernel.usual)
    func large(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let bytes = pattern(1 << 20)
        try await together(
            {
                let counts = try serveEcho(kernel, port, connections: 1) {
                    $0.receiveBufferBytes = 512
                    $0.receiveBufferCount = 16
                    $0.socketSendBytes = 4096
                }
                #expect(counts.receivedByteCount == bytes.count)
                #expect(counts.shortSendCount > 0)
            },
            {
                let client = try BlockingClient(port: port.take(), receiveBytes: 4096)
                let descriptor = client.descriptor
                let sending = Handoff<Bool>()
                Thread.detachNewThread {
                    var sent = 0
                    while sent < bytes.count {
                        let count = bytes.withUnsafeBytes {
                            Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, 0)
                        }
                        if count <= 0 { break }
                        sent += count
                    }
                    sending.give(sent == bytes.count)
                }
                let echoed = try client.receive(bytes.count)
                #expect(echoed == bytes)
                #expect(try sending.take())
            })
    }

    @Test(
        "a vectored send gathers its pieces in order; the vectors need not outlive the submission",
        arguments: Kernel.usual)
    func vectored(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let pieceCount = 300
        try await together(
            {
                var transport = try makeTransport(kernel, port)
                let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 1)
                defer { piece.deallocate() }
                for index in 0..<256 { piece[index] = UInt8(index) }
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        let vectors = (0..<pieceCount).map {
                            iovec(iov_base: piece.baseAddress! + $0 % 100, iov_len: $0 % 7)
                        }
                        try vectors.withUnsafeBufferPointer {
                            transport.send(id, vectors: $0)
                            try transport.submitAndWait(timeoutMicroseconds: 0)
                        }
                    case .sent(let id, let count, let errno):
                        #expect(count == (0..<pieceCount).map { $0 % 7 }.reduce(0, +))
                        #expect(errno == 0)
                        transport.close(id)
                    case .closed: return true
                    default: break
                    }
                    return false
                }
            },
            {
                let client = try BlockingClient(port: port.take())
                var expected: [UInt8] = []
                for index in 0..<pieceCount {
                    expected += (0..<index % 7).map { UInt8(index % 100 + $0) }
                }
                try client.expect(expected)
            })
    }

    @Test(
        "500 connections at once, and more operations than one system call takes",
        arguments: Kernel.usual)
    func many(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let count = 500
        try await together(
            {
                let counts = try serveEcho(kernel, port, connections: count) {
                    $0.operations = 16
                }
                #expect(counts.receivedByteCount == count * 100)
            },
            {
                let port = try port.take()
                var sockets: [Int32] = []
                defer { for socket in sockets { close(socket) } }
                for _ in 0..<count {
                    sockets.append(try BlockingClient(port: port).take())
                }
                for (index, socket) in sockets.enumerated() {
                    let bytes = pattern(100, seed: index)
                    #expect(bytes.withUnsafeBytes { send(socket, $0.baseAddress!, 100, 0) } == 100)
                }
                for (index, socket) in sockets.enumerated() {
                    var bytes = [UInt8](repeating: 0, count: 100)
                    #expect(recv(socket, &bytes, 100, Int32(MSG_WAITALL)) == 100)
                    #expect(bytes == pattern(100, seed: index))
                }
            })
    }

    @Test(
        "small and few receive buffers for 50 busy connections lose nothing",
        arguments: Kernel.usual)
    func exhaustion(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let count = 50
        try await together(
            {
                let counts = try serveEcho(kernel, port, connections: count) {
                    $0.receiveBufferCount = 4
                    $0.receiveBufferBytes = 64
                }
                #expect(counts.receivedByteCount == count * 10_000)
            }, copies: count,
            { index in
                let client = try BlockingClient(port: port.take())
                let bytes = pattern(10_000, seed: index)
                try client.send(bytes)
                try client.expect(bytes)
            })
    }

    @Test(
        "a paused connection's bytes wait in the kernel and come after the resume",
        arguments: Kernel.usual)
    func pause(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let paused = Handoff<Bool>()
        let waker = Handoff<TransportWaker>()
        let bytes = pattern(200_000)
        try await together(
            {
                var transport = try makeTransport(kernel, port)
                waker.give(transport.waker)
                var received: [UInt8] = []
                var connection: ConnectionID?
                var isResumed = false
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        connection = id
                        transport.pauseReceive(id)
                        transport.resumeReceive(id)
                        transport.pauseReceive(id)
                        transport.pauseReceive(id)
                        try transport.submitAndWait(timeoutMicroseconds: 0)
                        paused.give(true)
                    case .received(let id, let new):
                        #expect(isResumed)
                        received += new
                        // Off and on again at every event: still nothing is lost or doubled.
                        transport.pauseReceive(id)
                        transport.resumeReceive(id)
                    case .woken:
                        isResumed = true
                        transport.resumeReceive(connection!)
                    case .receiveEnded(let id, let errno):
                        #expect(errno == 0)
                        transport.close(id)
                    case .closed: return true
                    default: break
                    }
                    return false
                }
                #expect(received == bytes)
            },
            {
                let client = try BlockingClient(port: port.take())
                _ = try paused.take()
                try client.send(Array(bytes[..<1000]))
                try waker.take().wake()
                try client.send(Array(bytes[1000...]))
                client.endSending()
                try client.expectEnd()
            })
    }

    @Test(
        "a connection paused as it is accepted is not received from, also if its bytes are there",
        arguments: Kernel.usual)
    func pausedAtOnce(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let sent = Handoff<Bool>()
        let paused = Handoff<Bool>()
        let waker = Handoff<TransportWaker>()
        let bytes = pattern(3000)
        try await together(
            {
                var transport = try makeTransport(kernel, port)
                waker.give(transport.waker)
                _ = try sent.take()
                var received: [UInt8] = []
                var connections: [ConnectionID] = []
                var isResumed = false
                var closedCount = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        transport.pauseReceive(id)
                        connections.append(id)
                        if connections.count == 2 { paused.give(true) }
                    case .received(_, let new):
                        #expect(isResumed)
                        received += new
                    case .woken:
                        isResumed = true
                        for id in connections { transport.resumeReceive(id) }
                    case .receiveEnded(let id, let errno):
                        #expect(isResumed && errno == 0)
                        transport.close(id)
                    case .closed: closedCount += 1
                    default: break
                    }
                    return closedCount == 2
                }
                #expect(received == bytes)
            },
            {
                let client = try BlockingClient(port: port.take())
                try client.send(bytes)
                client.endSending()
                // A peer that has given up: the resume tells its end.
                let gone = try BlockingClient(port: port.take())
                gone.endSending()
                sent.give(true)
                _ = try paused.take()
                try waker.take().wake()
                try client.expectEnd()
                try gone.expectEnd()
            })
    }

    @Test("a peer's reset ends receiving with the error, once", arguments: Kernel.usual)
    func reset(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        try await together(
            {
                var transport = try makeTransport(kernel, port)
                var endCount = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .receiveEnded(let id, let errno):
                        #expect(errno == ECONNRESET)
                        endCount += 1
                        transport.close(id)
                    case .closed: return true
                    default: break
                    }
                    return false
                }
                #expect(endCount == 1)
            },
            {
                let client = try BlockingClient(port: port.take())
                try client.send([1])
                client.reset()
            })
    }

    @Test(
        "a vectored send to a peer that does not read waits, and its vectors need not outlive the submission",
        arguments: Kernel.usual)
    func stuckVectors(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let isStuck = Handoff<Bool>()
        let pieceCount = 64
        let pieceBytes = 4096
        let sendCount = 40
        try await together(
            {
                var transport = try makeTransport(kernel, port) { $0.socketSendBytes = 4096 }
                let bytes = UnsafeMutableRawBufferPointer.allocate(
                    byteCount: pieceCount * pieceBytes, alignment: 1)
                defer { bytes.deallocate() }
                bytes.copyBytes(from: pattern(bytes.count))
                var sentBytes = 0
                var isTold = false
                // The pieces from `sentBytes` on; the vectors go before the send has ended.
                func send(_ transport: inout TestedTransport, _ id: ConnectionID) throws {
                    let start = sentBytes % bytes.count
                    let vectors = stride(from: start, to: bytes.count, by: pieceBytes).map {
                        iovec(
                            iov_base: bytes.baseAddress! + $0,
                            iov_len: min(pieceBytes, bytes.count - $0))
                    }
                    try vectors.withUnsafeBufferPointer {
                        transport.send(id, vectors: $0)
                        try transport.submitAndWait(timeoutMicroseconds: 0)
                    }
                }
                let waker = transport.waker
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        try send(&transport, id)
                        waker.wake()
                    case .woken:
                        // The peer reads when what it does not read has filled the socket.
                        if sentBytes < sendCount * bytes.count, !isTold {
                            isTold = true
                            isStuck.give(true)
                        }
                    case .sent(let id, let count, let errno):
                        #expect(errno == 0)
                        sentBytes += count
                        if sentBytes < sendCount * bytes.count {
                            try send(&transport, id)
                        } else {
                            transport.close(id)
                        }
                    case .closed: return true
                    default: break
                    }
                    return false
                }
            },
            {
                let client = try BlockingClient(port: port.take(), receiveBytes: 4096)
                _ = try isStuck.take()
                for _ in 0..<sendCount { try client.expect(pattern(pieceCount * pieceBytes)) }
                try client.expectEnd()
            })
    }

    @Test("bytes behind urgent data arrive without another packet", arguments: Kernel.usual)
    func urgent(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let connected = Handoff<Bool>()
        let sent = Handoff<Bool>()
        try await together(
            {
                var transport = try makeTransport(kernel, port)
                var received: [UInt8] = []
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        transport.pauseReceive(id)
                        try transport.submitAndWait(timeoutMicroseconds: 0)
                        connected.give(true)
                        _ = try sent.take()
                        transport.resumeReceive(id)
                    case .received(_, let bytes): received += bytes
                    default: break
                    }
                    return received == Array("abef".utf8)
                }
            },
            {
                let client = try BlockingClient(port: port.take())
                _ = try connected.take()
                try client.send(Array("ab".utf8))
                #expect(send(client.descriptor, [99], 1, Int32(MSG_OOB)) == 1)
                try client.send(Array("ef".utf8))
                sent.give(true)
                try client.expectEnd()
            })
    }
}
