// SPDX-License-Identifier: Apache-2.0
//
// Metrics of a gateway and its broker (EMB-2), through swift-metrics. A request is counted at its answer; the
// broker's figures are taken at each reading or report. Rests on PrometheusRegistry and BrokerFigures.

package import CoreMetrics
package import MartletThreads
import Synchronization

/// The metrics of one gateway.
package final class GatewayMetrics: Sendable {
    private struct RequestSeries {
        var counter: Counter
        var timer: CoreMetrics.Timer
    }

    package let registry: PrometheusRegistry
    let factory: any MetricsFactory
    private let requests = Mutex<[String: RequestSeries]>([:])
    private let figures: BrokerFigures
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
        figures = BrokerFigures(factory)
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

    /// Records figures of the broker and the number of requests in progress.
    package func record(_ now: BrokerStatistics, requestsInProgress: Int) {
        figures.record(now)
        inProgress.record(requestsInProgress)
    }
}
