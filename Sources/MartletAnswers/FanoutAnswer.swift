// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a message on its way to many instances (FAN-8). Property names are the names in the JSON output. Pure.

package import Martlet

/// A message on its way to many instances, or a deferred message.
package struct FanoutAnswer: Encodable, Sendable {
    package var project: String
    package var messageID: String
    /// `topic`, `condition`, `group` or `several`.
    package var kind: String
    package var target: String
    /// Start of the fanout, in milliseconds since 1970; for a deferred message, the instant from which the message
    /// waits.
    package var since: Int64
    /// Place among the project's deferred messages; nil: in progress.
    package var deferredPlace: Int?
    package var recipients: UInt64
    package var delivered: UInt64
    /// Finished part of the fanout, 0 to 1.
    package var progress: Double
    package var deliveriesPerSecond: Double
    /// Part of the whole delivery capacity, 0 to 1.
    package var share: Double
    package var secondsLeft: Double?

    package init(_ fanout: FanoutSummary) {
        project = fanout.project
        messageID = fanout.messageID
        kind = fanout.kind.name
        target = fanout.target
        since = fanout.since.millisecondsSince1970
        deferredPlace = fanout.deferredPlace
        recipients = fanout.recipientCount
        delivered = fanout.deliveredCount
        progress = fanout.progress
        deliveriesPerSecond = fanout.deliveriesPerSecond
        share = fanout.share
        secondsLeft = fanout.secondsLeft
    }
}

extension TargetKind {
    package var name: String {
        switch self {
        case .token: "token"
        case .topic: "topic"
        case .condition: "condition"
        case .group: "group"
        case .several: "several"
        }
    }
}
