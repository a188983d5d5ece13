// SPDX-License-Identifier: Apache-2.0
//
// The answers that `martlet fanouts` and `martlet top` print (FAN-8), from any source. Property names are the names
// in the JSON output. Pure.

import Martlet

/// A message on its way to many instances, or a deferred message.
struct FanoutAnswer: Encodable, Sendable {
    var project: String
    var messageID: String
    /// `topic`, `condition`, `group` or `several`.
    var kind: String
    var target: String
    /// Start of the fanout, in milliseconds since 1970; for a deferred message, the instant from which the message
    /// waits.
    var since: Int64
    /// Place among the project's deferred messages; nil: in progress.
    var deferredPlace: Int?
    var recipients: UInt64
    var delivered: UInt64
    /// Finished part of the fanout, 0 to 1.
    var progress: Double
    var deliveriesPerSecond: Double
    /// Part of the whole delivery capacity, 0 to 1.
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

    /// Milliseconds since 1970, by the broker's clock.
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
    /// nil: the figure is not known.
    var allocatedBytes: UInt64?
    var projects: [Project]

    /// The answer with rates of delivery since an earlier answer, by the broker's clock.
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
