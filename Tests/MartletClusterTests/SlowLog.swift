// SPDX-License-Identifier: Apache-2.0
//
// A log whose answers to rows come late: the log has a row, and other nodes read the row, while the writer waits. Nodes may
// be cut off from the log, and the log may answer and take no rows. Rests on ReplicationLog.

import Glibc
import MartletCluster
import MartletRows
import Synchronization

/// The pause before the answers to rows, in microseconds.
final class AnswerPause: Sendable {
    let microseconds = Atomic<UInt32>(0)
}

/// What is wrong with the log.
final class LogFaults: Sendable {
    /// The names of nodes that the log does not answer.
    let cutOff = Mutex<Set<String>>([])
    /// Whether the log takes no rows, because its disk is full.
    let isFull = Atomic(false)
}

/// A connection to a log with late answers.
final class SlowLog: ReplicationLog {
    private let log: any ReplicationLog
    private let pause: AnswerPause
    private let faults: LogFaults
    private let node: String

    init(_ log: any ReplicationLog, _ pause: AnswerPause, _ faults: LogFaults, of node: String) {
        self.log = log
        self.pause = pause
        self.faults = faults
        self.node = node
    }

    private func reached() throws(LogError) -> any ReplicationLog {
        guard !faults.cutOff.withLock({ $0.contains(node) }) else {
            usleep(200_000)
            throw .unavailable("the node is cut off")
        }
        return log
    }

    func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome {
        do throws(LogError) { _ = try reached() } catch { return .refused(.failed(error)) }
        guard !faults.isFull.load(ordering: .acquiring) else {
            return .refused(.failed(.server(code: "53100", text: "no space left on device")))
        }
        let outcome = log.append(row, after: predecessor, within: limit)
        usleep(pause.microseconds.load(ordering: .acquiring))
        return outcome
    }

    func identity(within limit: Duration) throws(LogError) -> LogIdentity {
        try reached().identity(within: limit)
    }

    func fate(of row: LogPosition, within limit: Duration) throws(LogError) -> RowFate {
        try reached().fate(of: row, within: limit)
    }

    func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow] {
        try reached().rows(after: position, bytesMax: bytesMax, within: limit)
    }

    func tail(within limit: Duration) throws(LogError) -> LogPosition {
        try reached().tail(within: limit)
    }

    func confirm(within limit: Duration) throws(LogError) { try reached().confirm(within: limit) }

    func lease(within limit: Duration) throws(LogError) -> Lease {
        try reached().lease(within: limit)
    }

    func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome {
        do throws(LogError) { _ = try reached() } catch { return .failed(error) }
        return log.takeOver(row, after: predecessor, as: claim, within: limit)
    }

    func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool {
        try reached().renewLease(epoch: epoch, life: life, within: limit)
    }

    func releaseLease(epoch: UInt32, within limit: Duration) throws(LogError) -> Bool {
        try reached().releaseLease(epoch: epoch, within: limit)
    }

    func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool {
        try reached().handLease(epoch: epoch, to: successor, within: limit)
    }

    func report(_ node: NodeReport, within limit: Duration) throws(LogError) {
        try reached().report(node, within: limit)
    }

    func nodes(within limit: Duration) throws(LogError) -> [NodeSighting] {
        try reached().nodes(within: limit)
    }

    func exchange(_ node: NodeReport, within limit: Duration) throws(LogError) -> NodeNews {
        try reached().exchange(node, within: limit)
    }

    func remove(_ node: NodeName, within limit: Duration) throws(LogError) {
        try reached().remove(node, within: limit)
    }

    // The protocol answers these for logs without wishes, so a log that passes on must name each.

    func wishes(within limit: Duration) throws(LogError) -> [NodeWish] {
        try reached().wishes(within: limit)
    }

    func ask(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        try reached().ask(wish, within: limit)
    }

    func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        try reached().withdraw(wish, within: limit)
    }

    func warnings(within limit: Duration) throws(LogError) -> [String] {
        try reached().warnings(within: limit)
    }

    func byteCount(within limit: Duration) throws(LogError) -> UInt64? {
        try reached().byteCount(within: limit)
    }

    func firstRow(ofNewest bytes: UInt64, within limit: Duration) throws(LogError) -> UInt64? {
        try reached().firstRow(ofNewest: bytes, within: limit)
    }

    func makeRoom(through row: UInt64, within limit: Duration) throws(LogError) {
        try reached().makeRoom(through: row, within: limit)
    }

    func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64 {
        try reached().trim(below: row, within: limit)
    }
}
