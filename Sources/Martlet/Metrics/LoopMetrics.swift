// SPDX-License-Identifier: Apache-2.0
//
// The counters of a loop, readable from any thread. A loop writes its own numbers once a turn, and no counter
// is written per delivery. Rests on Synchronization.

import MartletDelivery
import MartletEngine
import MartletTransport
import Synchronization

/// The counters of a loop.
final class LoopMetrics: Sendable {
    let connections = Atomic<Int>(0)
    let fanouts = Atomic<UInt64>(0)
    let delivered = Atomic<UInt64>(0)
    let fellBehind = Atomic<UInt64>(0)
    let acknowledged = Atomic<UInt64>(0)
    let sends = Atomic<UInt64>(0)
    let protocolViolations = Atomic<UInt64>(0)
    let acceptFailures = Atomic<UInt64>(0)
    let frameBytes = Atomic<Int>(0)
    let secure = SecureCounters()
    /// The load of each project, written once a second.
    let projects = Mutex<[ProjectLoad]>([])

    func record(
        _ counters: DeliveryCounters, connections count: Int, frameBytes bytes: Int,
        sealedBytes: Int
    ) {
        frameBytes.store(bytes, ordering: .relaxed)
        secure.sealedBytes.store(sealedBytes, ordering: .relaxed)
        connections.store(count, ordering: .relaxed)
        fanouts.store(counters.fanoutsStarted, ordering: .relaxed)
        delivered.store(counters.delivered, ordering: .relaxed)
        fellBehind.store(counters.fellBehind, ordering: .relaxed)
        acknowledged.store(counters.acknowledged, ordering: .relaxed)
        sends.store(counters.sends, ordering: .relaxed)
    }
}

/// Counts of a loop's TLS, readable from any thread.
final class SecureCounters: Sendable {
    let handshakes = Atomic<UInt64>(0)
    let resumptions = Atomic<UInt64>(0)
    /// Handshakes that failed, and sessions that ended for an error of TLS or without close_notify.
    let failures = Atomic<UInt64>(0)
    let truncations = Atomic<UInt64>(0)
    /// Handshakes of silent peers ended while others waited, and the address of the last one.
    let crowdedOut = Atomic<UInt64>(0)
    let crowdedFrom = Mutex(PeerAddress.loopback)
    /// Sealed bytes that the kernel has not taken.
    let sealedBytes = Atomic<Int>(0)
}
