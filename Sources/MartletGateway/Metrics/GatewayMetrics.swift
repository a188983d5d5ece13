// SPDX-License-Identifier: Apache-2.0
//
// Metrics of a gateway and its broker (EMB-2), through swift-metrics. A request is counted at its answer; the
// broker's figures are taken at each reading or report. Rests on PrometheusRegistry.

package import CoreMetrics
package import Martlet
import Synchronization

/// The metrics of one gateway.
package final class GatewayMetrics: Sendable {
    private struct RequestSeries {
        var counter: Counter
        var timer: CoreMetrics.Timer
    }

    package let registry: PrometheusRegistry
    private let factory: any MetricsFactory
    private let requests = Mutex<[String: RequestSeries]>([:])
    private let counters: [(Counter, @Sendable (BrokerStatistics) -> UInt64)]
    private let gauges: [(Gauge, @Sendable (BrokerStatistics) -> Int?)]
    /// The part of each of the broker's figures that its counter has, in the order of `counters`.
    private let told: Mutex<[UInt64]>
    private let inProgress: Gauge

    /// - Parameter other: a second receiver of the metrics.
    package init(other: (any MetricsFactory)?) {
        let registry = PrometheusRegistry()
        let factory: any MetricsFactory =
            other.map { MultiplexMetricsHandler(factories: [registry, $0]) } ?? registry
        self.registry = registry
        self.factory = factory
        inProgress = Gauge(
            label: "martlet_http_requests_in_progress", dimensions: [], factory: factory)
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
        ]
        // Begins at zero, so that the first `record` includes counts from before the gateway.
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

    /// Counts an answered request, and records the time until its answer.
    func answered(_ route: String, status: Int, after duration: Duration) {
        let series = requests.withLock { requests in
            let key = "\(route) \(status)"
            if let known = requests[key] { return known }
            let new = RequestSeries(
                counter: Counter(
                    label: "martlet_http_requests_total",
                    dimensions: [("route", route), ("status", String(status))], factory: factory),
                timer: CoreMetrics.Timer(
                    label: "martlet_http_request_duration_seconds",
                    dimensions: [("route", route)], factory: factory))
            requests[key] = new
            return new
        }
        series.counter.increment()
        let (seconds, attoseconds) = duration.components
        series.timer.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    /// Records figures of the broker and the number of requests in progress. Concurrent calls may bring their figures
    /// in another order than they read them: an older figure adds nothing to its counter.
    package func record(_ now: BrokerStatistics, requestsInProgress: Int) {
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
        inProgress.record(requestsInProgress)
    }
}
