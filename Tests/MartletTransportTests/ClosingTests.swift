// SPDX-License-Identifier: Apache-2.0
//
// The end of connections: `.closed` comes whatever was in flight, nothing of the old occupant of an
// index reaches the new one, and no descriptor leaks. Both ways in which a ring closes are tested on
// every kernel: with a shutdown first (needed before Linux 6.13) and without.

import Glibc
import MartletTransport
import Testing

@Suite("Closing", .serialized)
struct ClosingTests {
    @Test(
        "closing with a receive armed tells the peer and frees the index",
        arguments: Kernel.allCases)
    func armed(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let isIndexFree = Handoff<Bool>()
        try await together(
            {
                var transport = try makeTransport(kernel, port) { $0.connectionsMax = 1 }
                var first: ConnectionID?
                var closedCount = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        if let first {
                            #expect(id.index == first.index)
                            #expect(id.generation != first.generation)
                            // An old name does nothing to the new occupant.
                            transport.close(first)
                            transport.pauseReceive(first)
                            transport.send(first, UnsafeRawBufferPointer(start: nil, count: 0))
                        }
                        first = first ?? id
                        if closedCount == 0 {
                            transport.close(id)
                            transport.close(id)
                        }
                    case .received(let id, let bytes):
                        #expect(Array(bytes) == [7])
                        transport.close(id)
                    case .receiveEnded: Issue.record("told after close")
                    case .closed:
                        closedCount += 1
                        isIndexFree.give(true)
                    default: break
                    }
                    return closedCount == 2
                }
                #expect(transport.connectionCount == 0)
            },
            {
                let port = try port.take()
                let first = try BlockingClient(port: port)
                try first.expectEnd()
                _ = try isIndexFree.take()
                let second = try BlockingClient(port: port)
                try second.send([7])
                try second.expectEnd()
            })
    }

    @Test(
        "an index that is taken again in the batch that freed it tells `closed` before `accepted`",
        arguments: Kernel.usual)
    func reusedAtOnce(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel) { $0.connectionsMax = 2 }
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            let first = try BlockingClient(port: port)
            first.endSending()
            var ended: ConnectionID?
            try drive(&transport) { _, event in
                if case .receiveEnded(let id, _) = event { ended = id }
                return ended != nil
            }
            let old = ended!
            // One batch: the close, and after it an accept that finds a connection waiting. The
            // accept completes first.
            transport.close(old)
            let second = try transport.listen(address: "127.0.0.1", port: 0)
            let client = try BlockingClient(port: second)
            try client.send([3])
            var events: [String] = []
            try drive(&transport) { _, event in
                switch event {
                case .closed(old): events.append("closed")
                case .accepted(let id):
                    events.append("accepted")
                    #expect(id.index == old.index)
                    #expect(id.generation != old.generation)
                case .received(let id, _):
                    events.append("received")
                    #expect(id.generation != old.generation)
                    return true
                default: break
                }
                return false
            }
            #expect(events == ["closed", "accepted", "received"])
            #expect(transport.connectionCount == 1)
        }
    }

    @Test(
        "closing while a send is stuck tells `sent` first, then `closed`",
        arguments: Kernel.allCases)
    func stuck(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let isOver = Handoff<Bool>()
        try await together(
            {
                defer { isOver.give(true) }
                var transport = try makeTransport(kernel, port) { $0.socketSendBytes = 4096 }
                let memory = UnsafeMutableRawBufferPointer.allocate(
                    byteCount: 1 << 22, alignment: 16)
                defer { memory.deallocate() }
                memory.initializeMemory(as: UInt8.self, repeating: 1)
                let waker = transport.waker
                var connection: ConnectionID?
                var isClosing = false
                var wasSentAfterClose = false
                var roundsWithoutSent = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        connection = id
                        transport.send(id, UnsafeRawBufferPointer(memory))
                        waker.wake()
                    case .sent(let id, _, let errno):
                        roundsWithoutSent = 0
                        if isClosing {
                            #expect(errno != 0)
                            wasSentAfterClose = true
                        } else {
                            transport.send(id, UnsafeRawBufferPointer(memory))
                        }
                    case .woken:
                        // The peer reads nothing: once a few turns bring no `sent` it is stuck.
                        roundsWithoutSent += 1
                        if roundsWithoutSent < 100 {
                            waker.wake()
                        } else {
                            isClosing = true
                            transport.close(connection!)
                        }
                    case .closed:
                        #expect(wasSentAfterClose)
                        return true
                    default: break
                    }
                    return false
                }
            },
            {
                let client = try BlockingClient(port: port.take(), receiveBytes: 4096)
                _ = try isOver.take()
                _ = client.descriptor
            })
    }

    @Test("5,000 connections come and go through a table of 64", arguments: Kernel.allCases)
    func churn(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let clientCount = 4
        let eachCount = 1250
        try await together(
            {
                var transport = try makeTransport(kernel, port) { $0.connectionsMax = 64 }
                let answer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)
                defer { answer.deallocate() }
                answer[0] = 9
                var open: Set<ConnectionID> = []
                var acceptedCount = 0
                var closedCount = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id):
                        acceptedCount += 1
                        #expect(!open.contains { $0.index == id.index })
                        open.insert(id)
                    case .received(let id, let bytes):
                        if bytes[0] == 1 {
                            transport.close(id)
                        } else {
                            transport.send(id, UnsafeRawBufferPointer(answer))
                        }
                    case .receiveEnded(let id, _): transport.close(id)
                    case .closed(let id):
                        #expect(open.remove(id) != nil)
                        closedCount += 1
                    case .acceptFailed(let errno):
                        Issue.record("accept failed: \(errno)")
                    default: break
                    }
                    return closedCount == clientCount * eachCount
                }
                #expect(acceptedCount == clientCount * eachCount)
                #expect(transport.connectionCount == 0)
            }, copies: clientCount,
            { _ in
                let port = try port.take()
                for round in 0..<eachCount {
                    let client = try BlockingClient(port: port)
                    switch round % 4 {
                    // The broker closes with its receive armed.
                    case 0:
                        try client.send([1])
                        try client.expectEnd()
                    // The peer closes after an answer.
                    case 1:
                        try client.send([2])
                        try client.expect([9])
                    case 2:
                        client.endSending()
                        try client.expectEnd()
                    default:
                        try client.send([2])
                        client.reset()
                    }
                }
            })
    }
}
