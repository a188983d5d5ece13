// SPDX-License-Identifier: Apache-2.0
//
// `martlet upstream`: prints the messages of devices to their project (UPS-1). Rests on SenderOptions.

import ArgumentParser
import Martlet
import MartletAnswers

struct UpstreamCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "upstream",
        abstract: "Print what devices send to their project, as it comes.",
        discussion: """
            Begins with what no sender has taken yet. A message is taken once it is printed. Where \
            others listen too, each message goes to one of them. Ctrl-C ends with 0.
            """)

    @Option(help: "End after so many messages.")
    var count: Int?

    @OptionGroup var sender: SenderOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard count ?? 1 > 0 else { throw ValidationError("--count takes at least 1.") }
    }

    func perform() async throws {
        let interrupt = Interrupt.prepare()
        let left = Countdown(from: count ?? .max)
        let isJSON = output.json
        try await sender.ask(folder: folder) { sender in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await sender.takeUpstreamMessages {
                        let answer = UpstreamAnswer($0)
                        Terminal.print(isJSON ? JSON.line(answer) : Self.text(answer))
                        // A message that nobody can read is not taken.
                        try Terminal.requirePrinted()
                        return left.step()
                    }
                }
                group.addTask { await interrupt.wait() }
                try await group.next()
                group.cancelAll()
            }
        }
    }

    private static func text(_ message: UpstreamAnswer) -> String {
        let accepted = Martlet.Instant(millisecondsSince1970: message.accepted).iso8601
        let head =
            "\(accepted)  \(message.app)  \(message.token)  \(message.messageID.withoutControls)"
        let data = message.data.sorted { $0.key < $1.key }.map {
            "  \($0.key.withoutControls) = \($0.value.withoutControls)"
        }
        return ([head] + data).joined(separator: "\n")
    }
}

private struct UpstreamAnswer: Encodable {
    var number: UInt64
    var token: String
    var app: String
    var messageID: String
    /// Instant of acceptance, like `expires` in milliseconds since 1970.
    var accepted: Int64
    var expires: Int64
    var data: [String: String]

    init(_ message: DeviceMessage) {
        number = message.number
        token = message.token
        app = message.app
        messageID = message.messageID
        accepted = message.accepted.millisecondsSince1970
        expires = message.expires.millisecondsSince1970
        data = Dictionary(message.data.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }
}
