// SPDX-License-Identifier: Apache-2.0
//
// Changes of instances by app servers and administrators: `martlet subscribe`, `martlet unsubscribe` (TOP-4) and
// `martlet unregister` (REG-3). Each command takes tokens, and prints the reason for each refused token. A refused
// token makes the exit code 1, because a script must not take the change for done. Rests on SenderScope.

import ArgumentParser
import Martlet
import MartletAnswers

struct SubscribeCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "subscribe", abstract: "Subscribe instances to a topic.",
        discussion: "An instance that is subscribed already stays so. The exit code is 1 if any "
            + "token was refused.")

    @OptionGroup var change: TopicChangeOptions
    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let summary = try await sender.ask {
            try await $0.subscribe(change.token, to: change.topic)
        }
        sender.note(
            "topic.subscribe", "\(change.topic), \(summary.successCount) instances")
        try TokensAnswer(summary, tokens: change.token).print(
            "subscribed to \(change.topic)", json: output.json)
    }
}

struct UnsubscribeCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "unsubscribe", abstract: "Unsubscribe instances from a topic.",
        discussion: "An instance that is not subscribed stays so. The exit code is 1 if any token "
            + "was refused.")

    @OptionGroup var change: TopicChangeOptions
    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let summary = try await sender.ask {
            try await $0.unsubscribe(change.token, from: change.topic)
        }
        sender.note(
            "topic.unsubscribe", "\(change.topic), \(summary.successCount) instances")
        try TokensAnswer(summary, tokens: change.token).print(
            "unsubscribed from \(change.topic)", json: output.json)
    }
}

struct UnregisterCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "unregister", abstract: "Unregister devices for good.",
        discussion: """
            Stored messages, subscriptions, memberships of groups and the token itself go, and a \
            connection of the device ends. The exit code is 1 if any token was refused.
            """)

    @Option(
        parsing: .unconditionalSingleValue,
        help: "The registration token of an instance; may be given again.")
    var token: [String]

    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let answer = try await sender.ask { sender in
            var answer = TokensAnswer()
            for token in token {
                do {
                    try await sender.unregister(token)
                    answer.successes += 1
                    self.sender.note("device.unregister", token)
                } catch let error as MartletError where error.field == "token" {
                    answer.failures.append(TokenFailure(token: token, error: error.word.name))
                }
            }
            return answer
        }
        try answer.print("unregistered", json: output.json)
    }
}

/// The options for a topic, and for the instances whose subscription changes.
struct TopicChangeOptions: ParsableArguments {
    @Argument(help: "The topic.")
    var topic: String

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            "The registration token of an instance; may be given again, up to "
                + "\(Limits.tokensPerTopicRequestMax) times."))
    var token: [String]
}

extension TokensAnswer {
    /// Prints the results.
    /// - Parameter what: the new state of the instances without failure, such as `unregistered`.
    /// - Throws: exit code 1 if a token was refused.
    func print(_ what: String, json: Bool) throws {
        if json {
            JSON.print(self)
        } else {
            Terminal.print("\(successes == 1 ? "1 instance" : "\(successes) instances") \(what)")
            for failure in failures { Terminal.printError("\(failure.token)  \(failure.error)") }
        }
        if !failures.isEmpty { throw ExitCode.failure }
    }
}
