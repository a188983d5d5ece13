// SPDX-License-Identifier: Apache-2.0
//
// A log whose answers to rows come late: the log has a row, and other nodes read the row, while the writer waits. Rests on
// ReplicationLog.

import Glibc
import MartletCluster
import MartletRows
import Synchronization

/// The pause before the answers to rows, in microseconds.
final class AnswerPause: Sendable {
    let microseconds = Atomic<UInt32>(0)
}

/// A connection to a log with late answers.
final class SlowLog: ReplicationLog {
    private let log: any ReplicationLog
    private let pause: AnswerPause

    init(_ log: any ReplicationLog, _ pause: AnswerPause) {
        self.log = log
        self.pause = pause
    }

    func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome {
        let outcome = log.append(row, after: predecessor, within: limit)
        usleep(pause.microseconds.load(ordering: .acquiring))
        return outcome
    }

    func identity(within limit: Duration) throws(LogError) -> LogIdentity {
        try log.identity(within: limit)
    }

    func fate(of row: LogPosition, within limit: Duration) throws(LogError) -> RowFate {
        try log.fate(of: row, within: limit)
    }

    func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow] {
        try log.rows(after: position, bytesMax: bytesMax, within: limit)
    }

    func tail(within limit: Duration) throws(LogError) -> LogPosition {
        try log.tail(within: limit)
    }

    func confirm(within limit: Duration) throws(LogError) { try log.confirm(within: limit) }

    func lease(within limit: Duration) throws(LogError) -> Lease { try log.lease(within: limit) }

    func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome {
        log.takeOver(row, after: predecessor, as: claim, within: limit)
    }

    func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool {
        try log.renewLease(epoch: epoch, life: life, within: limit)
    }

    func releaseLease(epoch: UInt32, within limit: Duration) throws(LogError) -> Bool {
        try log.releaseLease(epoch: epoch, within: limit)
    }

    func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool {
        try log.handLease(epoch: epoch, to: successor, within: limit)
    }

    func report(_ node: NodeReport, within limit: Duration) throws(LogError) {
        try log.report(node, within: limit)
    }

    func nodes(within limit: Duration) throws(LogError) -> [NodeSighting] {
        try log.nodes(within: limit)
    }

    func exchange(_ node: NodeReport, within limit: Duration) throws(LogError) -> NodeNews {
        try log.exchange(node, within: limit)
    }

    func remove(_ node: NodeName, within limit: Duration) throws(LogError) {
        try log.remove(node, within: limit)
    }

    // The protocol answers these for logs without wishes, so a log that passes on must name each.

    func wishes(within limit: Duration) throws(LogError) -> [NodeWish] {
        try log.wishes(within: limit)
    }

    func ask(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        try log.ask(wish, within: limit)
    }

    func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        try log.withdraw(wish, within: limit)
    }

    func byteCount(within limit: Duration) throws(LogError) -> UInt64? {
        try log.byteCount(within: limit)
    }

    func firstRow(ofNewest bytes: UInt64, within limit: Duration) throws(LogError) -> UInt64? {
        try log.firstRow(ofNewest: bytes, within: limit)
    }

    func makeRoom(through row: UInt64, within limit: Duration) throws(LogError) {
        try log.makeRoom(through: row, within: limit)
    }

    func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64 {
        try log.trim(below: row, within: limit)
    }
}
