// SPDX-License-Identifier: Apache-2.0
//
// Wakes: from threads through the eventfd, and from transport to transport.

import MartletTransport
import Testing

@Suite("Waking", .serialized)
struct WakingTests {
    @Test("wakes from four threads add up, and none is lost", arguments: Kernel.usual)
    func threads(on kernel: Kernel) async throws {
        let waker = Handoff<TransportWaker>()
        let each = 10_000
        let body: @Sendable () throws -> Void = {
            let waker = try waker.take()
            for _ in 0..<each { waker.wake() }
        }
        try await together(
            {
                var transport = try makeTransport(kernel)
                waker.give(transport.waker)
                var sum: UInt64 = 0
                try drive(&transport) { _, event in
                    if case .woken(let value) = event { sum += value }
                    return sum == 4 * UInt64(each)
                }
            }, body, body, body, body)
    }

    @Test("transports wake each other with values of 64 bits that arrive", arguments: Kernel.usual)
    func messages(on kernel: Kernel) async throws {
        let first = Handoff<TransportAddress>()
        let second = Handoff<TransportAddress>()
        let rounds: UInt64 = 20_000
        let base: UInt64 = 0xFEDC_BA98_0000_0000
        try await together(
            {
                var transport = try makeTransport(kernel)
                first.give(transport.address)
                let other = try second.take()
                var expected: UInt64 = 0
                transport.wake(other, value: base)
                try drive(&transport) { transport, event in
                    guard case .woken(let value) = event else { return false }
                    #expect(value == base &+ expected)
                    expected += 1
                    if expected == rounds { return true }
                    transport.wake(other, value: base &+ expected)
                    return false
                }
            },
            {
                var transport = try makeTransport(kernel)
                second.give(transport.address)
                let other = try first.take()
                var count: UInt64 = 0
                try drive(&transport) { transport, event in
                    guard case .woken(let value) = event else { return false }
                    transport.wake(other, value: value)
                    count += 1
                    return count == rounds
                }
                try transport.submitAndWait(timeoutMicroseconds: 0)
            })
    }

    @Test("a burst of wakes larger than the other's sizes arrives in full", arguments: Kernel.usual)
    func burst(on kernel: Kernel) async throws {
        let address = Handoff<TransportAddress>()
        let sent = Handoff<Bool>()
        let count: UInt64 = 5000
        try await together(
            {
                var transport = try makeTransport(kernel) {
                    $0.operations = 16
                }
                address.give(transport.address)
                _ = try sent.take()
                var received: UInt64 = 0
                try drive(&transport) { _, event in
                    if case .woken(let value) = event { received += value }
                    return received == count * (count + 1) / 2
                }
            },
            {
                var transport = try makeTransport(kernel)
                let other = try address.take()
                for value in 1...count { transport.wake(other, value: value) }
                try transport.submitAndWait(timeoutMicroseconds: 0)
                sent.give(true)
            })
    }

    @Test(
        "a transport may wake itself; one that has ended is woken in vain; a late waker does no harm",
        arguments: Kernel.usual)
    func edges(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            transport.wake(transport.address, value: 77)
            try drive(&transport) { _, event in
                if case .woken(77) = event { return true }
                return false
            }
            let gone = try makeTransport(kernel)
            let address = gone.address
            let waker = gone.waker
            _ = consume gone
            waker.wake()
            transport.wake(address, value: 1)
            try transport.submitAndWait(timeoutMicroseconds: 10_000)
            #expect(transport.nextEvent() == nil)
        }
    }

    @Test("waiting ends with the timeout, and not waiting returns at once", arguments: Kernel.usual)
    func timeout(on kernel: Kernel) async throws {
        try await together {
            var transport = try makeTransport(kernel)
            try transport.submitAndWait(timeoutMicroseconds: 20_000)
            #expect(transport.nextEvent() == nil)
            try transport.submitAndWait(timeoutMicroseconds: 0)
            #expect(transport.nextEvent() == nil)
            transport.waker.wake(value: 3)
            try transport.submitAndWait(timeoutMicroseconds: nil)
            guard case .woken(3) = transport.nextEvent() else {
                throw Failure("not woken")
            }
        }
    }
}
