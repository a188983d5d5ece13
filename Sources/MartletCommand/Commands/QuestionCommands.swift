// SPDX-License-Identifier: Apache-2.0
//
// Questions about a project: topics, a topic's subscribers, and the instances that a condition selects, with an
// explanation of the condition (TOP-9, CON-8, CON-9). Rests on SenderScope.

import ArgumentParser
import Martlet
import MartletAnswers

struct TopicsCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics", abstract: "List a project's topics, or those of one instance.")

    @Option(
        parsing: .unconditional,
        help: "Only the topics of the instance with this registration token.")
    var token: String?

    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let topics = try await sender.ask { sender in
            try await allPages("topics") { after in
                if let token { return try await sender.topics(of: token, after: after) }
                return try await sender.topics(after: after)
            }
        }
        if output.json { return JSON.print(topics.map { TopicAnswer($0) }) }
        var table = Table(("TOPIC", .left), ("SUBSCRIBERS", .right))
        for topic in topics { table.add(topic.name, "\(topic.subscriberCount)") }
        Terminal.print(table.text)
    }
}

struct SubscribersCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "subscribers", abstract: "List the tokens of a topic's subscribers.")

    @Argument(help: "The topic.")
    var topic: String

    @Option(parsing: .unconditional, help: "Go on after the cursor that another call ended with.")
    var after = ""

    @Option(parsing: .unconditional, help: "Tokens to list at most, 1 or more.")
    var limit = 1000

    @OptionGroup var sender: SenderScope

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit takes at least 1.") }
    }

    func perform() async throws {
        let list = try await sender.ask { sender in
            var list = TokenList(topic: topic)
            try await list.read("subscribers", after: after, limit: limit) { after, limit in
                try await sender.subscribers(of: topic, after: after, limit: limit)
            }
            return list
        }
        list.print(json: output.json)
    }
}

struct AudienceCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "audience",
        abstract: "Count or list whom a condition selects, without sending anything.")

    @Argument(help: "The condition, such as \"'tides' in topics && ! ('silent' in topics)\".")
    var condition: String

    @Flag(help: "List the instances' tokens instead of counting them.")
    var tokens = false

    @Option(
        parsing: .unconditional,
        help: "With --tokens: go on after the cursor that another call ended with.")
    var after = ""

    @Option(parsing: .unconditional, help: "With --tokens: tokens to list at most, 1 or more.")
    var limit = 1000

    @OptionGroup var sender: SenderScope

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit takes at least 1.") }
    }

    func perform() async throws {
        if tokens {
            let list = try await sender.ask { sender in
                var list = TokenList(condition: condition)
                try await pointing(at: condition) {
                    try await list.read("tokens", after: after, limit: limit) { after, limit in
                        try await sender.tokens(matching: condition, after: after, limit: limit)
                    }
                }
                return list
            }
            return list.print(json: output.json)
        }
        let audience = AudienceAnswer(
            try await sender.ask { sender in
                try await pointing(at: condition) {
                    try await showing("Counting") { try await sender.audience(of: condition) }
                }
            }, of: condition)
        if output.json { return JSON.print(audience) }
        var table = Table(("APP", .left), ("PLATFORM", .left), ("INSTANCES", .right))
        for app in audience.apps.sorted(by: { ($0.app, $0.platform) < ($1.app, $1.platform) }) {
            table.add(app.app, app.platform, "\(app.count)")
        }
        table.add("all", "android", "\(audience.android)")
        table.add("all", "apple", "\(audience.apple)")
        table.add("all", "web", "\(audience.web)")
        table.add("all", "all", "\(audience.total)")
        Terminal.print(table.text)
    }
}

struct ExplainCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show how a condition is read, what each part selects, and what to look at.")

    @Argument(help: "The condition, such as \"'tides' in topics && ! ('silent' in topics)\".")
    var condition: String

    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let explanation = ExplanationAnswer(
            try await sender.ask { sender in
                try await pointing(at: condition) {
                    try await showing("Counting") { try await sender.explain(condition) }
                }
            }, of: condition)
        if output.json { return JSON.print(explanation) }
        Terminal.print(Self.text(explanation))
    }

    private static func text(_ explanation: ExplanationAnswer) -> String {
        var sections = ["Read as\n  \(explanation.readAs)"]
        let width = explanation.parts.map { "\($0.count)".count }.max() ?? 1
        sections.append(
            "Instances that each part selects\n"
                + explanation.parts.map { part in
                    let count = "\(part.count)"
                    return "  " + String(repeating: " ", count: width - count.count) + count + "  "
                        + String(repeating: "  ", count: part.depth)
                        + part.text.split(whereSeparator: \.isNewline).joined(separator: " ")
                }.joined(separator: "\n"))
        sections.append(
            "Bytecode\n" + explanation.bytecode.map { "  " + $0 }.joined(separator: "\n"))
        for advice in explanation.advice {
            sections.append(
                "Advice: \(advice.message)\n"
                    + Caret.pointing(at: advice.byteOffset, of: explanation.condition))
        }
        return sections.joined(separator: "\n\n")
    }
}
