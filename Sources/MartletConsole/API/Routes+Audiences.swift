// SPDX-License-Identifier: Apache-2.0
//
// Whom a condition selects, exactly and now (CON-8, CON-9). No message is sent. Rests on the embedding API.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    private static let condition = Field("condition", .string, isRequired: true, "The condition.")

    static let audiences = [
        ConsoleRoute(
            "audience.count", .get, "projects/{project}/audience", .role(.viewer),
            "Count the instances that a condition selects.", query: [condition],
            answer:
                "As `martlet audience --json` prints it, with the number that is connected now.",
            schema: .audience
        ) { call in
            let condition = try call.query("condition")
            let audience = try call.broker.audience(of: condition, in: call.project)
            let reach = try await call.broker.reach(ofCondition: condition, in: call.project)
            return .json(
                AudienceAnswer(audience, of: condition, connected: reach.connectedCount))
        },
        ConsoleRoute(
            "audience.explain", .get, "projects/{project}/audience/explanation", .role(.viewer),
            "Explain how a condition is read, with the count of each part.", query: [condition],
            answer: "As `martlet explain --json` prints it.",
            schema: .explanation
        ) { call in
            let condition = try call.query("condition")
            return .json(
                ExplanationAnswer(
                    try call.broker.explain(condition, in: call.project), of: condition))
        },
        ConsoleRoute(
            "audience.tokens", .get, "projects/{project}/audience/tokens", .role(.viewer),
            "List the tokens that a condition selects.", query: [condition] + paged,
            answer: "As `martlet audience --tokens --json` prints it.",
            schema: .tokens
        ) { call in
            let condition = try call.query("condition")
            let page = try call.broker.tokens(
                matching: condition, in: call.project, after: call.after, limit: try call.limit)
            var list = TokenList(condition: condition)
            (list.tokens, list.next) = (page.entries, page.next)
            return .json(list)
        },
    ]

    static let topics = [
        ConsoleRoute(
            "topics.list", .get, "projects/{project}/topics", .role(.viewer), "List the topics.",
            query: paged, answer: "A page of topics, each as `martlet topics --json` prints it.",
            schema: .page(.topic)
        ) { call in
            let page = try call.broker.topics(
                in: call.project, after: call.after, limit: try call.limit)
            return .json(PageAnswer(page) { TopicAnswer($0) })
        },
        ConsoleRoute(
            "topics.subscribers", .get, "projects/{project}/topics/{topic}/subscribers",
            .role(.viewer), "List the tokens of a topic's subscribers.", query: paged,
            answer: "As `martlet subscribers --json` prints it.",
            schema: .tokens
        ) { call in
            let page = try call.broker.subscribers(
                of: call["topic"], in: call.project, after: call.after, limit: try call.limit)
            var list = TokenList(topic: call["topic"])
            (list.tokens, list.next) = (page.entries, page.next)
            return .json(list)
        },
        ConsoleRoute(
            "topics.subscribe", .post, "projects/{project}/topics/{topic}/subscribers",
            .role(.sender), "Subscribe instances to a topic.", body: [tokens],
            answer: "As `martlet subscribe --json` prints it.",
            schema: .tokenResults
        ) { call in
            var call = call
            let tokens = try call.texts("tokens")
            try call.finish()
            let summary = try await call.broker.subscribe(
                tokens, to: call["topic"], in: call.project)
            try await call.noteTopic("topic.subscribe", summary.successCount)
            return .json(TokensAnswer(summary, tokens: tokens))
        },
        ConsoleRoute(
            "topics.unsubscribe", .delete, "projects/{project}/topics/{topic}/subscribers",
            .role(.sender), "Unsubscribe instances from a topic.", body: [tokens],
            answer: "As `martlet unsubscribe --json` prints it.",
            schema: .tokenResults
        ) { call in
            var call = call
            let tokens = try call.texts("tokens")
            try call.finish()
            let summary = try await call.broker.unsubscribe(
                tokens, from: call["topic"], in: call.project)
            try await call.noteTopic("topic.unsubscribe", summary.successCount)
            return .json(TokensAnswer(summary, tokens: tokens))
        },
    ]

    private static let tokens = Field(
        "tokens", .strings, isRequired: true, "Tokens of instances, at most 1000.")
}

extension ConsoleCall {
    /// Notes a change of a topic. A call without a changed instance leaves no line.
    fileprivate func noteTopic(_ action: String, _ count: Int) async throws {
        guard count > 0 else { return }
        try await note(action, "\(call["topic"]), \(count) instances", in: project)
    }
}
