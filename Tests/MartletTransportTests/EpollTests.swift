// SPDX-License-Identifier: Apache-2.0
//
// What holds of epoll alone: turns that no peer can make long, places for connections, sizes.

import Glibc
import MartletTransport
import Testing

@Suite("epoll", .serialized)
struct EpollTests {
    @Test("a connection receives once in a turn, however much its peer has sent")
    func turns() async throws {
        try await together {
            var transport = try makeTransport(.epoll) { $0.receiveBufferBytes = 64 }
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            let client = try BlockingClient(port: port)
            let bytes = pattern(1000)
            try client.send(bytes)
            var received: [UInt8] = []
            var turnCount = 0
            while received.count < bytes.count {
                try transport.submitAndWait(timeoutMicroseconds: 1_000_000)
                var receiveCount = 0
                while let event = transport.nextEvent() {
                    guard case .received(_, let new) = event else { continue }
                    receiveCount += 1
                    received += new
                }
                #expect(receiveCount <= 1)
                turnCount += 1
            }
            #expect(received == bytes)
            #expect(turnCount >= 1000 / 64)
        }
    }

    @Test("the end of a send is told in the turn after the send, and then the bytes that came")
    func order() async throws {
        try await together {
            var transport = try makeTransport(.epoll)
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            let client = try BlockingClient(port: port)
            var connection: ConnectionID?
            try drive(&transport) { _, event in
                if case .accepted(let id) = event { connection = id }
                return connection != nil
            }
            [7].withUnsafeBytes { transport.send(connection!, $0) }
            #expect(transport.nextEvent() == nil)
            try client.expect([7, 0, 0, 0, 0, 0, 0, 0])
            try client.send([5])
            var told: [String] = []
            while told.count < 2 {
                try transport.submitAndWait(timeoutMicroseconds: 1_000_000)
                while let event = transport.nextEvent() {
                    switch event {
                    case .sent(_, byteCount: 8, errno: 0): told.append("sent")
                    case .received(_, let bytes): told.append("received \(Array(bytes))")
                    default: break
                    }
                }
            }
            #expect(told == ["sent", "received [5]"])
        }
    }

    @Test("connections take descriptors, so the process's limit is divided, and some are left")
    func descriptors() async throws {
        try await together {
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let most = Int(clamping: limit.rlim_max)
            let left = most - EpollTransport.descriptorsReserved
            #expect(EpollTransport.connectionsMax(wanted: 1 << 24, transportCount: 1) == left)
            #expect(EpollTransport.connectionsMax(wanted: 1 << 24, transportCount: 4) == left / 4)
            #expect(EpollTransport.connectionsMax(wanted: 100, transportCount: 4) == 100)
            let transport = try makeTransport(.epoll) { $0.connectionsMax = 1 << 24 }
            #expect(transport.connectionsMax == left)
        }
    }

    @Test("sizes that contradict the kernel's are refused with the bound")
    func configuration() {
        var configuration = EpollConfiguration()
        #expect(configuration.fault == nil)
        configuration.receiveBufferBytes = 0
        #expect(configuration.fault?.contains("1048576") == true)
        #expect(throws: TransportError.badConfiguration(configuration.fault ?? "")) {
            _ = try EpollTransport(configuration: configuration)
        }
    }
}
