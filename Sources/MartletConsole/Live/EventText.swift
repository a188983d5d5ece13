// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a project's events (EMB-3). Property names are the names in the JSON output. Pure.

import Martlet
import MartletAnswers

/// The name of an event, and its JSON.
enum EventText {
    private struct Accepted: Encodable {
        var messageID: String
        var recipients: UInt64
        var deferred: Bool
        var scheduled: Bool
    }

    private struct Progress: Encodable {
        var messageID: String
        var recipients: UInt64
        var delivered: UInt64
        var done: Bool
    }

    private struct Sums: Encodable {
        var at: Int64
        var accepted: UInt64
        var upstream: UInt64
        var refused: UInt64
        var connected: UInt64
        var disconnected: UInt64
        var connections: Int
        var dropped: UInt64
        var counts: CountsAnswer
    }

    static func of(_ event: ProjectEvent) -> (name: String, text: String) {
        switch event {
        case .accepted(let message):
            let answer = Accepted(
                messageID: message.messageID, recipients: message.recipientCount,
                deferred: message.isDeferred, scheduled: message.isScheduled)
            return ("accepted", JSON.line(answer))
        case .progress(let progress):
            let answer = Progress(
                messageID: progress.messageID, recipients: progress.recipientCount,
                delivered: progress.deliveredCount, done: progress.isDone)
            return ("progress", JSON.line(answer))
        case .refused(let error):
            return ("refused", JSON.line(FailureAnswer(error: .init(error))))
        case .sums(let sums):
            let answer = Sums(
                at: sums.instant.millisecondsSince1970, accepted: sums.acceptedCount,
                upstream: sums.upstreamCount, refused: sums.refusedCount,
                connected: sums.connectedCount, disconnected: sums.disconnectedCount,
                connections: sums.connectionCount, dropped: sums.droppedCount,
                counts: CountsAnswer(sums.counts))
            return ("sums", JSON.line(answer))
        }
    }
}
