// SPDX-License-Identifier: Apache-2.0
//
// What happens at the bound of connections, and how accepting stops.

import Glibc
import MartletBase
import MartletTransport
import Testing

@Suite("Accepting", .serialized)
struct AcceptingTests {
    @Test(
        "past the last index accepting pauses, says so once, and goes on when a connection closes",
        arguments: Kernel.usual)
    func full(on kernel: Kernel) async throws {
        let port = Handoff<UInt16>()
        let connectionsMax = 8
        let failed = Handoff<TransportWaker>()
        try await together(
            {
                var transport = try makeTransport(kernel, port) {
                    $0.connectionsMax = connectionsMax
                }
                #expect(transport.connectionsMax == connectionsMax)
                let waker = transport.waker
                var accepted: [ConnectionID] = []
                var failures: [Int32] = []
                var closedCount = 0
                var highest = 0
                try drive(&transport) { transport, event in
                    switch event {
                    case .accepted(let id): accepted.append(id)
                    case .acceptFailed(let errno):
                        failures.append(errno)
                        failed.give(waker)
                    case .received(let id, _), .receiveEnded(let id, _): transport.close(id)
                    case .closed: closedCount += 1
                    default: break
                    }
                    highest = max(highest, transport.connectionCount)
                    return closedCount == connectionsMax + 20
                }
                #expect(failures == [ENFILE])
                #expect(highest == connectionsMax)
                #expect(accepted.count == connectionsMax + 20)
            },
            {
                let port = try port.take()
                var sockets: [Int32] = []
                for _ in 0..<connectionsMax {
                    sockets.append(try BlockingClient(port: port).take())
                }
                _ = try failed.take()
                // These wait in the backlog until there is a place.
                for _ in sockets.count..<(connectionsMax + 20) {
                    sockets.append(try BlockingClient(port: port).take())
                }
                for socket in sockets {
                    #expect(send(socket, [1], 1, Int32(MSG_NOSIGNAL)) == 1)
                    var byte: UInt8 = 0
                    #expect(recv(socket, &byte, 1, 0) <= 0)
                    close(socket)
                }
            })
    }

    @Test(
        "an accepted connection comes with the address of its peer and its listening socket",
        arguments: Kernel.usual)
    func origins(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            let ports = try (0..<2).map { _ in
                try transport.listen(address: "127.0.0.1", port: 0)
            }
            for (number, port) in ports.enumerated() {
                let client = try BlockingClient(port: port)
                var origin: ConnectionOrigin?
                try drive(&transport) { transport, event in
                    if case .accepted = event { origin = transport.acceptedOrigin }
                    return origin != nil
                }
                #expect(origin == ConnectionOrigin(address: .loopback, listener: number))
                try client.send([1])
            }
        }
    }

    @Test("after stopAccepting the port is free; open connections stay", arguments: Kernel.usual)
    func stop(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            let port = try transport.listen(address: "127.0.0.1", port: 0)
            let client = try BlockingClient(port: port)
            var connection: ConnectionID?
            try drive(&transport) { _, event in
                if case .accepted(let id) = event { connection = id }
                return connection != nil
            }
            transport.stopAccepting()
            transport.stopAccepting()
            var isRefused = false
            for _ in 0..<1000 where !isRefused {
                try transport.submitAndWait(timeoutMicroseconds: 10_000)
                while transport.nextEvent() != nil {}
                do { _ = try BlockingClient(port: port) } catch { isRefused = true }
            }
            #expect(isRefused)
            #expect(transport.connectionCount == 1)
            try client.send([5])
            try drive(&transport) { _, event in
                if case .received(connection, _) = event { return true }
                return false
            }
        }
    }

    @Test(
        "an address in use, one that is not ours, and one that is none are told apart",
        arguments: Kernel.usual)
    func refused(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            // A plain socket without SO_REUSEPORT occupies the port.
            let other = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(other) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var bytes = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    #expect(bind(other, $0, bytes) == 0)
                    #expect(listen(other, 1) == 0)
                    #expect(getsockname(other, $0, &bytes) == 0)
                }
            }
            let port = UInt16(bigEndian: address.sin_port)
            #expect(throws: TransportError.addressInUse(address: "127.0.0.1", port: port)) {
                _ = try transport.listen(address: "127.0.0.1", port: port)
            }
            #expect(throws: TransportError.addressUnavailable(address: "192.0.2.1", port: 0)) {
                _ = try transport.listen(address: "192.0.2.1", port: 0)
            }
            #expect(throws: TransportError.badAddress("a..b")) {
                _ = try transport.listen(address: "a..b", port: 0)
            }
            #expect(try transport.listen(address: "localhost", port: 0) > 0)
        }
    }
}
