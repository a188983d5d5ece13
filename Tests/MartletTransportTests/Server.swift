// SPDX-License-Identifier: Apache-2.0
//
// The loops that tests drive transports with: `drive` hands every event to a closure until told to
// stop, `Echo` answers every byte and keeps what each connection still has to send. Generic over
// Transport as the real loop is. Rests on TestedTransport.

import Foundation
import MartletTransport
import Synchronization

/// Turns the loop until the closure says true after an event.
func drive<T: Transport & ~Copyable>(
    _ transport: inout T, _ handle: (inout T, TransportEvent) throws -> Bool
) throws {
    let deadline = Date(timeIntervalSinceNow: 60)
    while true {
        var isDone = false
        while let event = transport.nextEvent() {
            if try handle(&transport, event) { isDone = true }
        }
        if isDone { return }
        if Date() > deadline { throw Failure("the event that ends the test did not come") }
        try transport.submitAndWait(timeoutMicroseconds: 1_000_000)
    }
}

/// Sends back what it receives. Output waits in order while a send is in flight.
struct Echo: ~Copyable {
    var receivedByteCount = 0
    var shortSendCount = 0
    var outputs: [ConnectionID: Output] = [:]

    struct Output {
        var waiting: [UInt8] = []
        /// What is in flight, at a fixed address, and how much of it has left.
        var flying: UnsafeMutableRawBufferPointer?
        var sentCount = 0
        var hasEnded = false
    }

    /// Handles one event; connections are closed when their peer has ended and all is sent.
    mutating func handle<T: Transport & ~Copyable>(_ transport: inout T, _ event: TransportEvent) {
        switch event {
        case .accepted(let id): outputs[id] = Output()
        case .received(let id, let bytes):
            receivedByteCount += bytes.count
            outputs[id]!.waiting.append(contentsOf: bytes)
            flush(&transport, id)
        case .sent(let id, let count, let errno):
            finish(&transport, id, count, errno)
        case .receiveEnded(let id, _):
            outputs[id]!.hasEnded = true
            flush(&transport, id)
        case .closed(let id): outputs[id] = nil
        case .acceptFailed, .woken: break
        }
    }

    private mutating func flush<T: Transport & ~Copyable>(_ transport: inout T, _ id: ConnectionID)
    {
        guard let output = outputs[id], output.flying == nil else { return }
        if output.waiting.isEmpty {
            if output.hasEnded { transport.close(id) }
            return
        }
        let flying = UnsafeMutableRawBufferPointer.allocate(
            byteCount: output.waiting.count, alignment: 1)
        flying.copyBytes(from: output.waiting)
        outputs[id]!.flying = flying
        outputs[id]!.waiting = []
        outputs[id]!.sentCount = 0
        transport.send(id, UnsafeRawBufferPointer(flying))
    }

    private mutating func finish<T: Transport & ~Copyable>(
        _ transport: inout T, _ id: ConnectionID, _ count: Int, _ errno: Int32
    ) {
        let flying = outputs[id]!.flying!
        outputs[id]!.sentCount += count
        let sentCount = outputs[id]!.sentCount
        if errno == 0, sentCount < flying.count {
            shortSendCount += 1
            transport.send(id, UnsafeRawBufferPointer(rebasing: flying[sentCount...]))
            return
        }
        flying.deallocate()
        outputs[id]!.flying = nil
        if errno != 0 { transport.close(id) } else { flush(&transport, id) }
    }
}

/// Serves echoes until as many connections as told have closed, then gives back what it counted.
struct EchoCounts: Sendable {
    var receivedByteCount: Int
    var shortSendCount: Int
    var connectionsLeft: Int
}

func serveEcho(
    _ kernel: Kernel, _ port: Handoff<UInt16>, connections: Int,
    _ configure: (inout Sizes) -> Void = { _ in }
) throws -> EchoCounts {
    var transport = try makeTransport(kernel, port, configure)
    var echo = Echo()
    var closedCount = 0
    try drive(&transport) { transport, event in
        echo.handle(&transport, event)
        if case .closed = event { closedCount += 1 }
        return closedCount == connections
    }
    return EchoCounts(
        receivedByteCount: echo.receivedByteCount, shortSendCount: echo.shortSendCount,
        connectionsLeft: transport.connectionCount)
}
