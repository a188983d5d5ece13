// SPDX-License-Identifier: Apache-2.0
//
// The counters of a loop, readable from any thread. A loop writes its own numbers once a turn, and no counter
// is written per delivery. Rests on Synchronization.

package import MartletBase
package import MartletDelivery
package import Synchronization

/// The counters of a loop.
package final class LoopMetrics: Sendable {
    package let connections = Atomic<Int>(0)
    package let fanouts = Atomic<UInt64>(0)
    package let delivered = Atomic<UInt64>(0)
    package let fellBehind = Atomic<UInt64>(0)
    package let acknowledged = Atomic<UInt64>(0)
    package let sends = Atomic<UInt64>(0)
    package let protocolViolations = Atomic<UInt64>(0)
    package let acceptFailures = Atomic<UInt64>(0)
    package let frameBytes = Atomic<Int>(0)
    package let secure = SecureCounters()
    /// The load of each project, written once a second.
    package let projects = Mutex<[ProjectLoad]>([])

    package init() {}

    package func record(
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
package final class SecureCounters: Sendable {
    package let handshakes = Atomic<UInt64>(0)
    package let resumptions = Atomic<UInt64>(0)
    /// Handshakes that failed, and sessions that ended for an error of TLS or without close_notify.
    package let failures = Atomic<UInt64>(0)
    package let truncations = Atomic<UInt64>(0)
    /// Handshakes of silent peers ended while others waited, and the address of the last one.
    package let crowdedOut = Atomic<UInt64>(0)
    package let crowdedFrom = Mutex(PeerAddress.loopback)
    /// Sealed bytes that the kernel has not taken.
    package let sealedBytes = Atomic<Int>(0)

    package init() {}
}
