// SPDX-License-Identifier: Apache-2.0
//
// Nodes on a log of either kind, and short words for what they write. Rests on MartletCluster.

import MartletBase
import MartletCluster
import MartletRows
import Testing

extension NodeName {
    static let a = try! NodeName(validating: "a")
    static let b = try! NodeName(validating: "b")
    static let c = try! NodeName(validating: "c")
}

extension Duration {
    /// Longer than any answer takes, so that only a lost answer ends a call.
    static let ample = Duration.seconds(10)
}

/// A new log and its nodes.
final class LogBench {
    let identity: LogIdentity
    let a: any ReplicationLog
    let b: any ReplicationLog
    /// Rows of a piece that is dropped as a whole.
    let trimmedRows: UInt64

    init(
        identity: LogIdentity, trimmedRows: UInt64, a: any ReplicationLog, b: any ReplicationLog
    ) {
        self.identity = identity
        self.trimmedRows = trimmedRows
        self.a = a
        self.b = b
    }

    var beginning: LogPosition { LogPosition(beginningOf: identity.incarnation) }

    static func report(_ name: NodeName, applied: UInt64 = 0) -> NodeReport {
        NodeReport(name: name, run: 1, address: "\(name):7300", formats: 1...1, applied: applied)
    }

    static func claim(_ name: NodeName, isEarly: Bool = false) -> LeaseClaim {
        LeaseClaim(node: name, address: "\(name):7300", life: .seconds(60), isEarly: isEarly)
    }

    /// The first row of an epoch.
    static func takeover(by name: NodeName, after last: LogPosition) -> ReplicatedRow {
        ReplicatedRow(after: last, epoch: last.epoch + 1, body: Array("\(name) takes over".utf8))
    }

    /// Makes `name` the active node, and returns the place of its first row.
    func takeOver(
        _ log: any ReplicationLog, _ name: NodeName, after last: LogPosition, isEarly: Bool = false
    ) throws -> LogPosition {
        let row = Self.takeover(by: name, after: last)
        let outcome = log.takeOver(
            row, after: last, as: Self.claim(name, isEarly: isEarly), within: .ample)
        try #require(outcome == .taken)
        return row.position
    }

    /// Appends rows with these bodies, and returns the place of the last one.
    func append(
        _ bodies: [[UInt8]], to log: any ReplicationLog, after last: LogPosition
    ) throws -> LogPosition {
        var last = last
        for body in bodies {
            let row = ReplicatedRow(after: last, epoch: last.epoch, body: body)
            try #require(log.append(row, after: last, within: .ample) == .accepted)
            last = row.position
        }
        return last
    }
}
