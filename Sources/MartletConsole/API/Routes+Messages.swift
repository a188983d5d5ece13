// SPDX-License-Identifier: Apache-2.0
//
// Messages of a project: composed, checked, followed, cancelled (MSG-3, MSG-10, REP-1, REP-2). Rests on MessageDraft.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let messages = [
        ConsoleRoute(
            "messages.send", .post, "projects/{project}/messages", .role(.sender),
            "Send a message of at most 1024 characters, or check it.", body: MessageDraft.fields,
            answer:
                "As `martlet send --json` prints it. After a mere check, `connected` is the number "
                + "of recipients that are connected now.",
            schema: .sent
        ) { call in
            var call = call
            let draft = try MessageDraft(from: &call)
            try call.finish()
            let receipt = try await call.broker.send(draft.outgoing, in: call.project)
            if let id = receipt.messageID {
                let outcome =
                    draft.outgoing.sendAt == nil
                    ? "\(receipt.recipientCount) recipients" : "scheduled"
                try await call.note(
                    "message.send", "\(id) to \(draft.about), \(outcome)", in: call.project)
            }
            var answer = SendAnswer(receipt)
            if draft.outgoing.validateOnly {
                answer.connected = try await call.broker.reach(
                    of: draft.outgoing, in: call.project
                ).connectedCount
            }
            return .json(answer)
        },
        ConsoleRoute(
            "messages.sent", .get, "projects/{project}/sent", .role(.sender),
            "List the messages that people have sent, the newest first.", query: logPage,
            answer: "Entries of the log of actions: `what` begins with the message's ID.",
            schema: .log
        ) { call in
            let before = try call.number("before").map { UInt64(clamping: $0) }
            return .json(
                call.console.actions(
                    "message.send", in: call.project, before: before, limit: try call.logLimit))
        },
        ConsoleRoute(
            "messages.scheduled", .get, "projects/{project}/scheduled", .role(.sender),
            "List the messages that wait for their time, of people and of servers.", query: paged,
            answer:
                "A page of messages, each with the milliseconds since 1970 at which it is sent.",
            schema: .page(.scheduled)
        ) { call in
            let after = UInt64(call.after) ?? 0
            guard after > 0 || call.after.isEmpty else {
                throw MartletError(
                    .invalidArgument, "It takes the `next` of the page before.", field: "after")
            }
            let (project, limit) = (call.project, try call.limit)
            let found = try call.broker.scheduled(in: project, after: after, limit: limit)
            let next = found.count == limit ? found.last.map { String($0.number) } : nil
            return .json(
                PageAnswer(ListPage(entries: found, next: next)) {
                    ScheduledAnswer(
                        messageID: MessageID.text($0.number, projectID: project),
                        due: $0.due.millisecondsSince1970)
                })
        },
        ConsoleRoute(
            "messages.report", .get, "projects/{project}/messages/{message}", .role(.viewer),
            "Tell what became of a message.",
            answer: "As `martlet report MESSAGE --json` prints it.",
            schema: .messageReport
        ) { call in
            .json(
                MessageReportAnswer(try call.broker.report(of: call["message"], in: call.project)))
        },
        ConsoleRoute(
            "messages.cancel", .delete, "projects/{project}/messages/{message}", .role(.sender),
            "Cancel a message.", answer: "As `martlet cancel --json` prints it.",
            schema: .cancelled
        ) { call in
            let message = call["message"]
            let summary = try await call.broker.cancel(message, in: call.project)
            try await call.note("message.cancel", message, in: call.project)
            return .json(
                CancelAnswer(
                    messageID: message, wasScheduled: summary.wasScheduled,
                    delivered: summary.deliveredCount))
        },
        ConsoleRoute(
            "messages.missing", .get, "projects/{project}/messages/{message}/missing",
            .role(.viewer), "List the recipients that have not got a message.", query: paged,
            answer: "As `martlet report MESSAGE --missing --json` prints it.",
            schema: .tokens
        ) { call in
            let page = try call.broker.notReceived(
                call["message"], in: call.project, after: call.after, limit: try call.limit)
            var list = TokenList(messageID: call["message"])
            (list.tokens, list.next) = (page.entries, page.next)
            return .json(list)
        },
        ConsoleRoute(
            "reports.days", .get, "projects/{project}/reports", .role(.viewer),
            "Tell what became of the project's messages, by day and app.",
            query: [
                Field("days", .integer, "Days up to today, 1 to 366; 30 without the parameter.")
            ],
            answer: "As `martlet report PROJECT --json` prints it.",
            schema: .projectReport
        ) { call in
            let count = try call.number("days") ?? 30
            guard (1...366).contains(count) else {
                throw MartletError(
                    .invalidArgument, "It takes a number from 1 to 366.", field: "days")
            }
            let today = Day(of: call.broker.now)
            let days = today.before(UInt32(count - 1))...today
            var entries: [DailyCounts] = []
            var after: String? = ""
            while let start = after {
                let page = try call.broker.reports(days: days, in: call.project, after: start)
                entries += page.entries
                after = page.next
            }
            return .json(
                ProjectReportAnswer(
                    ProjectReport(project: call.project, days: days, entries: entries)))
        },
    ]
}

private struct ScheduledAnswer: Encodable {
    var messageID: String
    /// Milliseconds since 1970.
    var due: Int64
}
