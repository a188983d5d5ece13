// SPDX-License-Identifier: Apache-2.0
//
// A transport in the place of io_uring: operations go to a simulated network, and completions come from the network.
// Rests on SimulatedPort.

import Glibc
import MartletTransport

/// The connections of one loop.
struct SimulatedTransport: ~Copyable, Transport {
    let port: SimulatedPort

    mutating func nextEvent() -> TransportEvent? { port.nextEvent() }

    /// Never waits, because the world turns the loop when the loop has work.
    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {}

    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        port.link(connection)?.send([bytes])
    }

    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {
        port.link(connection)?.send(
            vectors.map { UnsafeRawBufferPointer(start: $0.iov_base, count: $0.iov_len) })
    }

    mutating func pauseReceive(_ connection: ConnectionID) {
        port.link(connection)?.isReceiveWanted = false
    }

    mutating func resumeReceive(_ connection: ConnectionID) {
        port.link(connection)?.resumeReceive()
    }

    mutating func close(_ connection: ConnectionID) { port.link(connection)?.close() }

    mutating func stopAccepting() { port.isAccepting = false }

    var connectionCount: Int { port.connectionCount }
    var hasArrivals: Bool { false }
    var arrivalCount: UInt32 { 0 }
    var address: TransportAddress { TransportAddress(number: Int32(port.number)) }

    mutating func wake(_ other: TransportAddress, value: UInt64) { port.wake(Int(other.number)) }

    mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 { port }
}
