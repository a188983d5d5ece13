// SPDX-License-Identifier: Apache-2.0
//
// What a broker measures of itself (OPS-10): durations of transactions and of messages to many, refusals by cause, and
// the state of store and disk. A duration is recorded once for each transaction or message, and never for each
// delivery. Rests on PrometheusRegistry and RefusalBook.

package import CoreMetrics
package import MartletBase
package import MartletEngine

/// The metrics of one broker.
package final class BrokerMetrics: Sendable {
    /// Projects with series of their own: those with most messages to many in progress, then with most connections.
    private static let projectsMax = 100
    /// The name of all other projects together. No project can have the name.
    private static let otherProjects = "(others)"

    private let measured = PrometheusRegistry()
    private let figuresRegistry = PrometheusRegistry()
    private let figures: BrokerFigures
    private let commit: CoreMetrics.Timer
    private let journal: CoreMetrics.Timer
    private let firstDelivery: CoreMetrics.Timer
    private let lastDelivery: CoreMetrics.Timer
    private let refusals: [ErrorWord: Counter]
    package let refusalBook = RefusalBook()
    private let state: [(Gauge, @Sendable (StoreState) -> Int)]
    package let folder: String
    /// Receives further metrics of the process, which are shown with those of the broker.
    package let factory: any MetricsFactory

    /// The state of store and disk at one moment.
    package struct StoreState {
        package var isRefusing = false
        package var silentSeconds = 0
        package var isShortOfRoom = false
        package var mapBytes = 0
        package var fileBytes = 0
        package var diskFreeBytes = 0
        package var diskBytes = 0
        package var fanoutsInProgress = 0
        package var fanoutsDeferred = 0

        package init() {}
    }

    /// - Parameters:
    ///   - other: a second receiver of the metrics.
    ///   - folder: the data folder, whose file and disk are measured.
    package init(other: (any MetricsFactory)?, folder: String) {
        self.folder = folder
        func both(_ registry: PrometheusRegistry) -> any MetricsFactory {
            other.map { MultiplexMetricsHandler(factories: [registry, $0]) } ?? registry
        }
        let factory = both(measured)
        self.factory = factory
        func timer(_ name: String) -> CoreMetrics.Timer {
            CoreMetrics.Timer(label: name, dimensions: [], factory: factory)
        }
        func gauge(
            _ name: String, _ value: @escaping @Sendable (StoreState) -> Int
        ) -> (Gauge, @Sendable (StoreState) -> Int) {
            (Gauge(label: name, dimensions: [], factory: factory), value)
        }
        figures = BrokerFigures(both(figuresRegistry))
        commit = timer("martlet_commit_duration_seconds")
        journal = timer("martlet_journal_write_duration_seconds")
        firstDelivery = timer("martlet_first_delivery_duration_seconds")
        lastDelivery = timer("martlet_last_delivery_duration_seconds")
        refusals = Dictionary(
            uniqueKeysWithValues: ErrorWord.allCases.map { word in
                let counter = Counter(
                    label: "martlet_refusals_total", dimensions: [("cause", word.name)],
                    factory: factory)
                return (word, counter)
            })
        state = [
            gauge("martlet_store_refusing") { $0.isRefusing ? 1 : 0 },
            gauge("martlet_silent_seconds") { $0.silentSeconds },
            gauge("martlet_disk_short") { $0.isShortOfRoom ? 1 : 0 },
            gauge("martlet_store_map_bytes") { $0.mapBytes },
            gauge("martlet_store_file_bytes") { $0.fileBytes },
            gauge("martlet_disk_free_bytes") { $0.diskFreeBytes },
            gauge("martlet_disk_bytes") { $0.diskBytes },
            gauge("martlet_fanouts_in_progress") { $0.fanoutsInProgress },
            gauge("martlet_fanouts_deferred") { $0.fanoutsDeferred },
        ]
    }

    // MARK: Events

    package func committed(after nanoseconds: UInt64) {
        commit.recordNanoseconds(Int64(clamping: nanoseconds))
    }

    package func journalWritten(after nanoseconds: UInt64) {
        journal.recordNanoseconds(Int64(clamping: nanoseconds))
    }

    package func delivered(_ moment: FanoutMoment, after milliseconds: Int64) {
        let timer =
            switch moment {
            case .first: firstDelivery
            case .last: lastDelivery
            }
        timer.recordNanoseconds(max(milliseconds, 0) * 1_000_000)
    }

    /// Counts a refused request, once and where it is refused.
    /// - Parameter project: nil: the peer's project is not known.
    package func refused(_ error: MartletError, in project: ProjectNumber?) {
        refused(error.word, in: project)
    }

    package func refused(_ cause: ErrorWord, in project: ProjectNumber?) {
        refusals[cause]?.increment()
        refusalBook.count(cause, in: project)
    }

    // MARK: Readings

    /// Takes the state of the broker over into counters and gauges.
    package func record(_ statistics: BrokerStatistics, _ now: StoreState) {
        figures.record(statistics)
        for (gauge, value) in state { gauge.record(value(now)) }
    }

    /// All metrics in the text format of Prometheus, as they were recorded last.
    /// - Parameters:
    ///   - withFigures: whether the broker's statistics are included.
    ///   - ids: the IDs of projects, as far as they are known.
    package func text(
        _ projects: [ProjectStatus], withFigures: Bool,
        ids: ([ProjectNumber]) -> [ProjectNumber: String]
    ) -> String {
        (withFigures ? figuresRegistry.text : "") + measured.text + Self.projectText(projects)
            + refusalText(ids)
    }

    /// Series of projects, made anew for each reading, so that a project without load has none.
    private static func projectText(_ projects: [ProjectStatus]) -> String {
        let registry = PrometheusRegistry()
        let values: [(String, (ProjectStatus) -> Int)] = [
            ("martlet_project_connections", \.connectionCount),
            ("martlet_project_fanouts_in_progress", \.fanoutsInProgress),
            ("martlet_project_fanouts_deferred", \.fanoutsDeferred),
            ("martlet_project_request_bytes", \.requestBytes),
        ]
        for (name, value) in values {
            var sums: [(String, Int)] = projects.prefix(projectsMax).map { ($0.project, value($0)) }
            let rest = projects.dropFirst(projectsMax)
            if !rest.isEmpty { sums.append((otherProjects, rest.reduce(0) { $0 + value($1) })) }
            for (project, sum) in sums {
                Gauge(label: name, dimensions: [("project", project)], factory: registry)
                    .record(sum)
            }
        }
        return registry.text
    }

    private func refusalText(
        _ ids: ([ProjectNumber]) -> [ProjectNumber: String]
    ) -> String {
        let registry = PrometheusRegistry()
        let counts = refusalBook.counts(others: Self.otherProjects, ids)
        for (project, cause, count) in counts {
            Counter(
                label: "martlet_project_refusals_total",
                dimensions: [("project", project), ("cause", cause.name)], factory: registry
            ).increment(by: Int64(clamping: count))
        }
        return registry.text
    }
}
