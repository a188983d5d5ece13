// SPDX-License-Identifier: Apache-2.0
//
// `martlet upstream`: prints the messages of devices to their project (UPS-1). Rests on SenderScope.

import ArgumentParser
import Martlet
import MartletAnswers

struct UpstreamCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "upstream",
        abstract: "Print what devices send to their project, as it comes.",
        discussion: """
            Begins with what no sender has taken yet. A message is taken once it is printed. Where \
            others listen too, each message goes to one of them. Ctrl-C ends with 0.
            """)

    @Option(parsing: .unconditional, help: "End after so many messages, 1 or more.")
    var count: Int?

    @OptionGroup var sender: SenderScope

    func validate() throws {
        guard count ?? 1 > 0 else { throw ValidationError("--count takes at least 1.") }
    }

    func perform() async throws {
        let isJSON = output.json
        try await sender.take(count) { sender, left in
            try await sender.takeUpstreamMessages {
                Terminal.print(isJSON ? Self.json($0) : Self.text($0))
                // A message that nobody can read is not taken.
                try Terminal.requirePrinted()
                return left.step()
            }
        }
    }

    private static func text(_ message: DeviceMessage) -> String {
        let head =
            "\(message.accepted.iso8601)  \(message.app)  \(message.token)  "
            + message.messageID.withoutControls
        let data = JSONObject(message.data).map {
            "  \($0.key.withoutControls) = \($0.value.plainText.withoutControls)"
        }
        return ([head] + data).joined(separator: "\n")
    }

    private static func json(_ message: DeviceMessage) -> String {
        JSONValue.object([
            "number": .integer(Int64(clamping: message.number)),
            "token": .string(message.token),
            "app": .string(message.app),
            "messageID": .string(message.messageID),
            "accepted": .integer(message.accepted.millisecondsSince1970),
            "expires": .integer(message.expires.millisecondsSince1970),
            "data": .object(JSONObject(message.data)),
        ]).text
    }
}
