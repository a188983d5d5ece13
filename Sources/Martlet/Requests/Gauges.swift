// SPDX-License-Identifier: Apache-2.0
//
// The state of a running broker, collected from its parts. Rests on LoopMetrics and FanoutBook.

import MartletBase
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletWire
import Synchronization

/// The counters and gauges of a running broker, readable from any thread.
final class Gauges: Sendable {
    let store: Store
    let committer: Committer
    let clock: @Sendable () -> Instant
    let requestMemory: RequestMemory
    let strangers: StrangerBook
    private let loops = Mutex<[LoopMetrics]>([])
    let disk: DiskReader

    /// Most projects in a list of loads.
    static let projectsMax = RefusalBook.projectsMax

    init(
        store: Store, committer: Committer, limits: BrokerLimits, strangers: StrangerBook,
        clock: @escaping @Sendable () -> Instant
    ) {
        requestMemory = RequestMemory(limits, strangers: strangers)
        self.strangers = strangers
        self.store = store
        disk = DiskReader(store, folder: committer.metrics.folder)
        self.committer = committer
        self.clock = clock
    }

    func add(_ metrics: LoopMetrics) {
        loops.withLock { $0.append(metrics) }
        committer.watches.add(metrics)
    }

    var statistics: BrokerStatistics {
        var result = BrokerStatistics()
        for metrics in loops.withLock({ $0 }) {
            result.connectionCount += metrics.connections.load(ordering: .relaxed)
            result.deliveredCount += metrics.delivered.load(ordering: .relaxed)
            result.acknowledgedCount += metrics.acknowledged.load(ordering: .relaxed)
            result.fellBehindCount += metrics.fellBehind.load(ordering: .relaxed)
            result.sendCallCount += metrics.sends.load(ordering: .relaxed)
            result.protocolViolationCount += metrics.protocolViolations.load(ordering: .relaxed)
            result.acceptFailureCount += metrics.acceptFailures.load(ordering: .relaxed)
            result.handshakeCount += metrics.secure.handshakes.load(ordering: .relaxed)
            result.resumptionCount += metrics.secure.resumptions.load(ordering: .relaxed)
            result.secureFailureCount += metrics.secure.failures.load(ordering: .relaxed)
            result.truncationCount += metrics.secure.truncations.load(ordering: .relaxed)
            result.turnedAwayCount += metrics.secure.crowdedOut.load(ordering: .relaxed)
            result.sealedBytes += metrics.secure.sealedBytes.load(ordering: .relaxed)
            result.frameBytes += metrics.frameBytes.load(ordering: .relaxed)
        }
        result.acceptedCount = committer.acceptedCount.load(ordering: .relaxed)
        result.requestBytes = requestMemory.total
        let strangers = strangers.figures
        result.strangerBytes = strangers.bytes
        result.turnedAwayCount += strangers.turnedAway
        result.commandsWaiting = committer.inbox.count
        result.storeBytesUsed = disk.figures().usedBytes
        result.allocatedBytes = ProcessMemory.allocatedBytes
        return result
    }

    /// OPS-10: takes the state of the broker over into its metrics.
    func recordMetrics() {
        let standings = committer.book.standings
        var now = BrokerMetrics.StoreState()
        now.isRefusing = committer.storeTrouble != nil
        now.silentSeconds = committer.pulse.silentSeconds
        now.isShortOfRoom = store.isShortOfRoom
        now.fanoutsInProgress = standings.reduce(0) { $0 + $1.running.count }
        now.fanoutsDeferred = standings.reduce(0) { $0 + $1.deferredCount }
        let disk = disk.figures()
        (now.mapBytes, now.fileBytes) = (disk.mapBytes, disk.fileBytes)
        (now.diskFreeBytes, now.diskBytes) = (disk.freeBytes, disk.byteCount)
        committer.metrics.record(statistics, now)
    }

    /// OPS-10: all metrics of the broker in the text format of Prometheus.
    /// - Parameter withFigures: whether `statistics` are included.
    func metricsText(withFigures: Bool = true) -> String {
        recordMetrics()
        let own = committer.metrics.text(projects(), withFigures: withFigures) { numbers in
            disk.figures(of: numbers).projects.mapValues(\.id)
        }
        return own + (committer.node?.metricsText ?? "")
    }

    /// FAN-8: the load of the broker.
    func status() -> BrokerStatus {
        let statistics = statistics
        var status = BrokerStatus(now: clock())
        status.connectionCount = statistics.connectionCount
        status.deliveredCount = statistics.deliveredCount
        status.acknowledgedCount = statistics.acknowledgedCount
        status.fellBehindCount = statistics.fellBehindCount
        status.commandsWaiting = statistics.commandsWaiting
        status.frameBytes = statistics.frameBytes
        status.requestBytes = statistics.requestBytes
        status.storeBytesUsed = statistics.storeBytesUsed
        status.allocatedBytes = statistics.allocatedBytes
        status.projects = projects()
        return status
    }

    /// FAN-8: the load of each project with sessions, unanswered requests, fanouts or deferred messages; the
    /// project with most fanouts in progress first. Told from memory while the disk hangs, without projects whose names
    /// have not been read.
    func projects() -> [ProjectStatus] {
        var loads: [ProjectNumber: ProjectLoad] = [:]
        for metrics in loops.withLock({ $0 }) {
            for load in metrics.projects.withLock({ $0 }) {
                loads[load.project, default: ProjectLoad(load.project)].add(load)
            }
        }
        let requests = requestMemory.projects
        for project in requests.keys where loads[project] == nil {
            loads[project] = ProjectLoad(project)
        }
        var standings: [ProjectNumber: FanoutBook.Standing] = [:]
        for standing in committer.book.standings {
            standings[standing.project] = standing
            if loads[standing.project] == nil {
                loads[standing.project] = ProjectLoad(standing.project)
            }
        }
        let busiest = loads.sorted { one, other in
            let counts = [one, other].map { standings[$0.key]?.running.count ?? 0 }
            if counts[0] != counts[1] { return counts[0] > counts[1] }
            if one.value.connectionCount != other.value.connectionCount {
                return one.value.connectionCount > other.value.connectionCount
            }
            return one.key < other.key
        }.prefix(Self.projectsMax)
        let known = disk.figures(of: busiest.map(\.key)).projects
        return busiest.compactMap { number, load in
            guard let project = known[number] else { return nil }
            let standing = standings[number]
            return ProjectStatus(
                project: project.id, weight: project.weight,
                connectionCount: load.connectionCount, deliveredCount: load.deliveredCount,
                fanoutsInProgress: standing?.running.count ?? 0,
                fanoutsDeferred: standing?.deferredCount ?? 0,
                fanoutBytes: standing?.bytes ?? 0, frameBytes: load.frameBytes,
                requestBytes: requests[number] ?? 0, share: standing?.share ?? 0)
        }
    }

    /// FAN-8: a page of fanouts. The active node has the list, and tells the other nodes once a second.
    func fanouts(
        of project: ProjectNumber?, after cursor: String, limit: Int
    ) throws -> ListPage<FanoutSummary> {
        guard let told = committer.node?.figuresOfActive?.fanouts
        else { return try ownFanouts(of: project, after: cursor, limit: limit) }
        let id = try project.map { (number) throws in
            try store.read { (transaction) throws in
                try transaction.projects.project(number)?.id
            }
        }
        return try FanoutList.page(
            told.filter { id == nil || $0.project == id }, after: cursor, limit: limit)
    }

    /// QUO-5: stored fanouts of a project in progress. The active node counts them.
    func fanoutsInProgress(of project: ProjectNumber, id: String?) -> Int {
        guard let told = committer.node?.figuresOfActive
        else { return committer.book.inProgressCount(of: project) }
        return told.status.projects.first { $0.project == id }?.fanoutsInProgress ?? 0
    }

    func ownFanouts(
        of project: ProjectNumber?, after cursor: String, limit: Int
    ) throws -> ListPage<FanoutSummary> {
        try FanoutList(book: committer.book, store: store, now: clock())
            .page(of: project, after: cursor, limit: limit)
    }
}
