// SPDX-License-Identifier: Apache-2.0
//
// FAN-8: the list of fanouts and the status of the broker, as frames. Rests on Gauges and MartletWire.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletWire

extension Answerer {
    /// Answers with a page of fanouts. A sender sees only its own project. An administrator sees any project,
    /// or all projects.
    func answer(_ question: ListFanoutsRequest, _ principal: Principal) throws -> BrokerFrame {
        var project: ProjectNumber?
        switch principal {
        case .administrator(let own):
            project = own
            if !question.projectID.isEmpty {
                project = try store.read { (transaction) throws in
                    try Authentication.project(id: question.projectID, in: transaction).number
                }
            }
        default:
            project = try principal.senderProject()
            guard try isNamed(question.projectID, project) else {
                throw MartletError(
                    .permissionDenied, "A sender asks for the fanouts of its own project.",
                    field: "project")
            }
        }
        let page = try gauges.fanouts(
            of: project, after: question.cursor, limit: Int(question.limit))
        return .fanoutPage(
            FanoutPage(
                correlation: question.correlation, nextCursor: page.next ?? "",
                fanouts: try page.entries.map { try FanoutRecord($0) }))
    }

    /// Whether an ID is empty, or the ID of the project.
    private func isNamed(_ id: String, _ project: ProjectNumber?) throws -> Bool {
        guard !id.isEmpty, let project else { return true }
        return try store.read { (transaction) throws in
            try transaction.projects.project(project)?.id == id
        }
    }
}

extension FanoutRecord {
    init(_ fanout: FanoutSummary) throws {
        self.init(
            projectID: fanout.project,
            messageNumber: try MessageID.number(fanout.messageID, projectID: fanout.project),
            kind: fanout.target.kind, target: fanout.target.text, since: fanout.since,
            deferredPlace: UInt64(fanout.deferredPlace ?? 0), recipients: fanout.recipientCount,
            delivered: fanout.deliveredCount, progress: UInt32(millionths: fanout.progress),
            rate: UInt32(bounding: fanout.deliveriesPerSecond),
            share: UInt32(millionths: fanout.share),
            secondsLeft: fanout.secondsLeft.map { UInt32(bounding: $0.rounded(.up)) })
    }
}

extension StatusResult {
    init(
        correlation: UInt32, now: Instant, _ statistics: BrokerStatistics,
        _ projects: [Martlet.ProjectStatus]
    ) {
        self.init(
            correlation: correlation, now: now,
            connections: UInt64(clamping: statistics.connectionCount),
            delivered: statistics.deliveredCount, acknowledged: statistics.acknowledgedCount,
            fellBehind: statistics.fellBehindCount,
            commandsWaiting: UInt64(clamping: statistics.commandsWaiting),
            frameBytes: UInt64(clamping: statistics.frameBytes),
            requestBytes: UInt64(clamping: statistics.requestBytes),
            storeBytes: UInt64(clamping: statistics.storeBytesUsed),
            allocatedBytes: UInt64(clamping: statistics.allocatedBytes ?? 0),
            projects: projects.map {
                ProjectStatus(
                    projectID: $0.project, weight: UInt32(clamping: $0.weight),
                    connections: UInt64(clamping: $0.connectionCount),
                    delivered: $0.deliveredCount,
                    fanoutsInProgress: UInt32(clamping: $0.fanoutsInProgress),
                    fanoutsDeferred: UInt32(clamping: $0.fanoutsDeferred),
                    fanoutBytes: UInt64(clamping: $0.fanoutBytes),
                    frameBytes: UInt64(clamping: $0.frameBytes),
                    requestBytes: UInt64(clamping: $0.requestBytes),
                    share: UInt32(millionths: $0.share))
            })
    }
}

extension UInt32 {
    /// Converts a part of 1 to millionths.
    fileprivate init(millionths part: Double) {
        self.init(Swift.min(Swift.max(part, 0), 1) * 1_000_000)
    }

    /// Cuts a value below the largest `UInt32`, which means "not known" on the wire.
    fileprivate init(bounding value: Double) {
        self.init(Swift.min(Swift.max(value, 0), Double(Self.max - 1)))
    }
}
