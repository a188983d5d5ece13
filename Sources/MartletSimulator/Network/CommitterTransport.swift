// SPDX-License-Identifier: Apache-2.0
//
// The transport on which the committer of a node sleeps: a fiber rests until its time has come, or until another part of
// the process wakes it. Rests on SimulatedPort and Fiber.

import Glibc
import MartletBase
import MartletTransport

/// The transport of a fiber without connections.
struct CommitterTransport: ~Copyable, Transport {
    let port: SimulatedPort
    let fiber: Fiber

    mutating func nextEvent() -> TransportEvent? { nil }

    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {
        guard timeoutMicroseconds != 0 else { return }
        fiber.sleep(until: port.network.agenda.now + Int64(timeoutMicroseconds ?? 1_000_000))
    }

    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {}

    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {}

    mutating func pauseReceive(_ connection: ConnectionID) {}

    mutating func resumeReceive(_ connection: ConnectionID) {}

    mutating func close(_ connection: ConnectionID) {}

    mutating func stopAccepting() {}

    var connectionCount: Int { 0 }
    var hasArrivals: Bool { false }
    var arrivalCount: UInt32 { 0 }
    var address: TransportAddress { TransportAddress(number: Int32(port.number)) }

    mutating func wake(_ other: TransportAddress, value: UInt64) { port.wake(Int(other.number)) }

    mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 { port }
}
