// SPDX-License-Identifier: Apache-2.0
//
// What `martlet fanouts` and `martlet top` print (FAN-8), whoever told it. The property names are those
// of the JSON output. Pure.

import Martlet

/// A message on its way to many instances, or one that waits to be.
struct FanoutAnswer: Encodable, Sendable {
    var project: String
    var messageID: String
    /// `topic`, `condition` or `several`.
    var kind: String
    var target: String
    /// Milliseconds since 1970: when it began; when it was accepted if it waits.
    var since: Int64
    /// Its place among those that wait; nil: it is in progress.
    var deferredPlace: Int?
    var recipients: UInt64
    var delivered: UInt64
    /// 0 to 1.
    var progress: Double
    var deliveriesPerSecond: Double
    /// 0 to 1.
    var share: Double
    var secondsLeft: Double?
}

struct StatusAnswer: Encodable, Sendable {
    struct Project: Encodable, Sendable {
        var project: String
        var weight: Int
        var connections: UInt64
        var delivered: UInt64
        var deliveriesPerSecond: Double
        var fanoutsInProgress: Int
        var fanoutsDeferred: Int
        var fanoutBytes: UInt64
        var frameBytes: UInt64
        var requestBytes: UInt64
        var share: Double
    }

    /// Milliseconds since 1970, of the broker's clock.
    var now: Int64
    var connections: UInt64
    var delivered: UInt64
    var deliveriesPerSecond: Double
    var acknowledged: UInt64
    var fellBehind: UInt64
    var commandsWaiting: UInt64
    var frameBytes: UInt64
    var requestBytes: UInt64
    var storeBytes: UInt64
    /// nil: not known.
    var allocatedBytes: UInt64?
    var projects: [Project]

    /// With what was done since an earlier answer, by the clock.
    func after(_ earlier: StatusAnswer) -> StatusAnswer {
        let seconds = Double(max(now - earlier.now, 1)) / 1000
        func rate(_ value: UInt64, _ before: UInt64) -> Double {
            value > before ? Double(value - before) / seconds : 0
        }
        var result = self
        result.deliveriesPerSecond = rate(delivered, earlier.delivered)
        let before = Dictionary(
            earlier.projects.map { ($0.project, $0.delivered) }, uniquingKeysWith: { $1 })
        for index in projects.indices {
            let project = projects[index]
            result.projects[index].deliveriesPerSecond = rate(
                project.delivered, before[project.project] ?? project.delivered)
        }
        return result
    }
}

extension OverloadPolicy {
    var name: String {
        switch self {
        case .defer: "defer"
        case .refuse: "refuse"
        }
    }
}

extension TargetKind {
    var name: String {
        switch self {
        case .token: "token"
        case .topic: "topic"
        case .condition: "condition"
        case .group: "group"
        case .several: "several"
        }
    }
}
