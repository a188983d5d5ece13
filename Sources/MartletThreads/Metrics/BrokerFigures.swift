// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a broker as counters and gauges of swift-metrics (EMB-2). The broker counts by itself; the figures
// are taken over at each reading or report. Rests on BrokerStatistics.

package import CoreMetrics
import Synchronization

/// The counters and gauges of a broker's statistics in one metrics factory.
package final class BrokerFigures: Sendable {
    private let counters: [(Counter, @Sendable (BrokerStatistics) -> UInt64)]
    private let gauges: [(Gauge, @Sendable (BrokerStatistics) -> Int?)]
    /// The part of each of the broker's figures that its counter has, in the order of `counters`.
    private let told: Mutex<[UInt64]>

    package init(_ factory: any MetricsFactory) {
        func counter(
            _ name: String, _ value: @escaping @Sendable (BrokerStatistics) -> UInt64
        ) -> (Counter, @Sendable (BrokerStatistics) -> UInt64) {
            (Counter(label: name, factory: factory), value)
        }
        func gauge(
            _ name: String, _ value: @escaping @Sendable (BrokerStatistics) -> Int?
        ) -> (Gauge, @Sendable (BrokerStatistics) -> Int?) {
            (Gauge(label: name, dimensions: [], factory: factory), value)
        }
        counters = [
            counter("martlet_messages_accepted_total") { $0.acceptedCount },
            counter("martlet_deliveries_total") { $0.deliveredCount },
            counter("martlet_acknowledgements_total") { $0.acknowledgedCount },
            counter("martlet_sessions_fell_behind_total") { $0.fellBehindCount },
            counter("martlet_protocol_violations_total") { $0.protocolViolationCount },
            counter("martlet_accept_failures_total") { $0.acceptFailureCount },
            counter("martlet_strangers_turned_away_total") { $0.turnedAwayCount },
            counter("martlet_tls_handshakes_total") { $0.handshakeCount },
            counter("martlet_tls_resumptions_total") { $0.resumptionCount },
            counter("martlet_tls_failures_total") { $0.secureFailureCount },
        ]
        // Begins at zero, so that the first `record` includes counts from before the figures.
        told = Mutex(counters.map { _ in 0 })
        gauges = [
            gauge("martlet_connections") { $0.connectionCount },
            gauge("martlet_commands_waiting") { $0.commandsWaiting },
            gauge("martlet_frame_bytes") { $0.frameBytes },
            gauge("martlet_request_bytes") { $0.requestBytes },
            gauge("martlet_stranger_bytes") { $0.strangerBytes },
            gauge("martlet_store_bytes") { $0.storeBytesUsed },
            gauge("martlet_allocated_bytes") { $0.allocatedBytes },
        ]
    }

    /// Takes figures over. Concurrent calls may bring their figures in another order than they read them: an older
    /// figure adds nothing to its counter.
    package func record(_ now: BrokerStatistics) {
        let added = told.withLock { told in
            counters.indices.map { index in
                let (new, old) = (counters[index].1(now), told[index])
                told[index] = max(new, old)
                return told[index] - old
            }
        }
        for ((counter, _), count) in zip(counters, added) where count > 0 {
            counter.increment(by: Int64(clamping: count))
        }
        for (gauge, value) in gauges {
            if let value = value(now) { gauge.record(value) }
        }
    }
}
