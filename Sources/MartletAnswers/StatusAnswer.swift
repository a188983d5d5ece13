// SPDX-License-Identifier: Apache-2.0
//
// The answer of `martlet top`: the status of a broker and the broker's metrics (FAN-8, OPS-10), with rates and
// durations since an earlier look. Rests on MetricsReading.

package import Martlet

/// A look at a broker.
package struct StatusAnswer: Encodable, Sendable {
    package struct Project: Encodable, Sendable {
        package var project: String
        package var weight: Int
        package var connections: UInt64
        package var delivered: UInt64
        package var deliveriesPerSecond: Double
        package var fanoutsInProgress: Int
        package var fanoutsDeferred: Int
        package var fanoutBytes: UInt64
        package var frameBytes: UInt64
        package var requestBytes: UInt64
        package var share: Double
    }

    /// Durations between two looks, in seconds, as Prometheus works them out of the broker's histograms.
    package struct Durations: Encodable, Sendable {
        /// Number of durations.
        package var count: UInt64
        /// nil: there was no duration.
        package var p50: Double?
        package var p99: Double?

        package init(_ histogram: MetricsReading.Histogram) {
            count = histogram.count
            p50 = histogram.quantile(0.5)
            p99 = histogram.quantile(0.99)
        }
    }

    /// OPS-7: one of several nodes.
    package struct Node: Encodable, Sendable {
        package var node: String
        package var isActive: Bool
        package var connections: UInt64
        package var delivered: UInt64
        package var deliveriesPerSecond: Double
        package var acknowledged: UInt64
    }

    /// Requests that the broker refused between two looks.
    package struct Refusals: Encodable, Sendable {
        /// The error word.
        package var cause: String
        package var count: UInt64
    }

    /// Requests of a project that the broker refused between two looks.
    package struct ProjectRefusals: Encodable, Sendable {
        package var project: String
        /// The error word.
        package var cause: String
        package var count: UInt64
    }

    package enum StoreState: String, Encodable, Sendable {
        case ok
        /// The store refused a change in the last ten seconds.
        case refusing
        /// The disk is full but for the room of deletions.
        case diskShort
    }

    /// Milliseconds since 1970, by the broker's clock.
    package var now: Int64
    package var connections: UInt64
    package var delivered: UInt64
    package var deliveriesPerSecond: Double
    package var acknowledged: UInt64
    package var fellBehind: UInt64
    package var commandsWaiting: UInt64
    package var frameBytes: UInt64
    package var requestBytes: UInt64
    package var storeBytes: UInt64
    /// nil: the figure is not known.
    package var allocatedBytes: UInt64?
    package var storeState: StoreState
    package var storeMapBytes: UInt64
    package var storeFileBytes: UInt64
    package var diskBytes: UInt64
    package var diskFreeBytes: UInt64
    package var commit: Durations
    package var journalWrite: Durations
    package var firstDelivery: Durations
    package var lastDelivery: Durations
    /// The most frequent cause first.
    package var refusals: [Refusals]
    /// The most frequent first. Refusals of peers without a project are in `refusals` alone.
    package var projectRefusals: [ProjectRefusals]
    package var tlsHandshakes: UInt64
    package var tlsHandshakesPerSecond: Double
    package var tlsFailures: UInt64
    package var projects: [Project]
    /// nil for a broker alone.
    package var nodes: [Node]?
    private var metrics: MetricsReading

    private enum CodingKeys: CodingKey {
        case now, connections, delivered, deliveriesPerSecond, acknowledged, fellBehind
        case commandsWaiting, frameBytes, requestBytes, storeBytes, allocatedBytes
        case storeState, storeMapBytes, storeFileBytes, diskBytes, diskFreeBytes
        case commit, journalWrite, firstDelivery, lastDelivery, refusals, projectRefusals
        case tlsHandshakes, tlsHandshakesPerSecond, tlsFailures, projects, nodes
    }

    /// The answer with rates of delivery since an earlier answer, by the broker's clock.
    package func after(_ earlier: StatusAnswer) -> StatusAnswer {
        let seconds = Double(max(now - earlier.now, 1)) / 1000
        func rate(_ value: UInt64, _ before: UInt64) -> Double {
            value > before ? Double(value - before) / seconds : 0
        }
        var result = self
        result.deliveriesPerSecond = rate(delivered, earlier.delivered)
        result.tlsHandshakesPerSecond = rate(tlsHandshakes, earlier.tlsHandshakes)
        result.tell(since: earlier.metrics)
        let before = Dictionary(
            earlier.projects.map { ($0.project, $0.delivered) }, uniquingKeysWith: { $1 })
        for index in projects.indices {
            let project = projects[index]
            result.projects[index].deliveriesPerSecond = rate(
                project.delivered, before[project.project] ?? project.delivered)
        }
        let nodesBefore = Dictionary(
            (earlier.nodes ?? []).map { ($0.node, $0.delivered) }, uniquingKeysWith: { $1 })
        result.nodes = nodes?.map { node in
            var node = node
            node.deliveriesPerSecond = rate(
                node.delivered, nodesBefore[node.node] ?? node.delivered)
            return node
        }
        // A node that comes or goes changes the sum, and has delivered nothing by that.
        if let nodes = result.nodes {
            result.deliveriesPerSecond = nodes.reduce(0) { $0 + $1.deliveriesPerSecond }
        }
        return result
    }

    /// Works out durations and refusals.
    private mutating func tell(since earlier: MetricsReading) {
        func durations(_ name: String) -> Durations {
            Durations(metrics.histogram("martlet_\(name)_duration_seconds", since: earlier))
        }
        commit = durations("commit")
        journalWrite = durations("journal_write")
        firstDelivery = durations("first_delivery")
        lastDelivery = durations("last_delivery")
        refusals = metrics.growth(of: "martlet_refusals_total", since: earlier)
            .map { Refusals(cause: $0.key, count: $0.value) }
            .sorted { ($1.count, $0.cause) < ($0.count, $1.cause) }
        projectRefusals = metrics.growthOfPairs(
            of: "martlet_project_refusals_total", labelled: "cause", since: earlier
        ).map { ProjectRefusals(project: $0.first, cause: $0.second, count: $0.count) }
            .sorted { ($1.count, $0.project, $0.cause) < ($0.count, $1.project, $1.cause) }
    }

    /// The answer without an earlier look: rates are 0, and there are no durations and no refusals.
    /// - Parameter metrics: metrics of about the time of `status`.
    package init(_ status: BrokerStatus, _ metrics: MetricsReading) {
        self.metrics = metrics
        storeState =
            metrics.value("martlet_disk_short") > 0
            ? .diskShort : metrics.value("martlet_store_refusing") > 0 ? .refusing : .ok
        storeMapBytes = metrics.count("martlet_store_map_bytes")
        storeFileBytes = metrics.count("martlet_store_file_bytes")
        diskBytes = metrics.count("martlet_disk_bytes")
        diskFreeBytes = metrics.count("martlet_disk_free_bytes")
        tlsHandshakes = metrics.count("martlet_tls_handshakes_total")
        tlsHandshakesPerSecond = 0
        tlsFailures = metrics.count("martlet_tls_failures_total")
        let none = Durations(MetricsReading.Histogram(buckets: []))
        (commit, journalWrite, firstDelivery, lastDelivery) = (none, none, none, none)
        (refusals, projectRefusals) = ([], [])
        now = status.now.millisecondsSince1970
        connections = UInt64(clamping: status.connectionCount)
        delivered = status.deliveredCount
        deliveriesPerSecond = 0
        acknowledged = status.acknowledgedCount
        fellBehind = status.fellBehindCount
        commandsWaiting = UInt64(clamping: status.commandsWaiting)
        frameBytes = UInt64(clamping: status.frameBytes)
        requestBytes = UInt64(clamping: status.requestBytes)
        storeBytes = UInt64(clamping: status.storeBytesUsed)
        allocatedBytes = status.allocatedBytes.map { UInt64(clamping: $0) }
        nodes =
            status.nodes.isEmpty
            ? nil
            : status.nodes.map {
                Node(
                    node: $0.node, isActive: $0.isActive,
                    connections: UInt64(clamping: $0.connectionCount),
                    delivered: $0.deliveredCount, deliveriesPerSecond: 0,
                    acknowledged: $0.acknowledgedCount)
            }
        projects = status.projects.map {
            Project(
                project: $0.project, weight: $0.weight,
                connections: UInt64(clamping: $0.connectionCount), delivered: $0.deliveredCount,
                deliveriesPerSecond: 0, fanoutsInProgress: $0.fanoutsInProgress,
                fanoutsDeferred: $0.fanoutsDeferred,
                fanoutBytes: UInt64(clamping: $0.fanoutBytes),
                frameBytes: UInt64(clamping: $0.frameBytes),
                requestBytes: UInt64(clamping: $0.requestBytes), share: $0.share)
        }
    }
}
