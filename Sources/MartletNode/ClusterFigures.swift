// SPDX-License-Identifier: Apache-2.0
//
// A node's metrics (OPS-10), taken from its state whenever they are read. Rests on ClusterState and PrometheusRegistry.

import CoreMetrics
import MartletBase
import MartletCluster
import MartletRows
import MartletThreads

/// The metrics of one node.
enum ClusterFigures {
    /// A node's series, in Prometheus' text format.
    static func text(_ cluster: ClusterState, _ links: NodeLinks?) -> String {
        let registry = PrometheusRegistry()
        let now = ClusterState.now
        let isLinked = links?.isUp ?? false
        let lag = cluster.lag
        let lead = cluster.time.lead(of: SystemClock.now())
        cluster.withLock { state in
            func gauge(_ name: String, _ value: some BinaryFloatingPoint) {
                Gauge(label: "martlet_cluster_" + name, dimensions: [], factory: registry)
                    .record(Double(value))
            }
            func counter(_ name: String, _ value: UInt64) {
                Counter(label: "martlet_cluster_" + name, factory: registry)
                    .increment(by: Int64(clamping: value))
            }
            let lease = state.hold.map { max(0, ($0.end - now) / .seconds(1)) } ?? 0
            gauge("active", lease > 0 ? 1.0 : 0)
            gauge("lease_seconds", lease)
            gauge("epoch", Double(state.applied.epoch))
            gauge("applied_row", Double(state.applied.row))
            gauge("log_row", Double(max(state.logRow, state.applied.row)))
            gauge("lag_seconds", lag / .seconds(1))
            gauge("clock_lead_seconds", lead / .seconds(1))
            gauge("drained", state.isDrained ? 1.0 : 0)
            gauge("link_up", isLinked ? 1.0 : 0)
            let answered = state.contact == .zero ? cluster.began : state.contact
            gauge("silence_seconds", (now - answered) / .seconds(1))
            gauge("log_refusing", state.appendTrouble == nil ? 0.0 : 1)
            gauge("stopped", state.stopped == nil ? 0.0 : 1)
            gauge("nodes", Double(state.livingNodeCount))
            gauge("append_seconds_total", Double(state.appendNanoseconds) / 1e9)
            counter("appends_total", state.appendCount)
            counter("append_bytes_total", state.appendBytes)
            counter("forwarded_total", state.forwardedCount)
            counter("takeovers_total", state.takeoverCount)
            counter("doubts_total", state.doubtCount)
        }
        return registry.text
    }
}
