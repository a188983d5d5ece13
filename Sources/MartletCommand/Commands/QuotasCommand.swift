// SPDX-License-Identifier: Apache-2.0
//
// `martlet quotas`: shows the remaining part of a project's quotas (QUO-2, QUO-3, QUO-4). Rests on SenderScope.

import ArgumentParser
import Martlet
import MartletAnswers

struct QuotasCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "quotas",
        abstract: "Show what is left of a project's quotas, and when they are full again.",
        discussion: """
            Quotas are kept in the memory of the broker that serves the folder; without one they are \
            full. Those that `martlet serve --limit NAME=0` turned off are not listed. With --key this \
            opens a connection of a sender, which counts like any other.
            """)

    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let quotas = try await sender.ask { try await $0.quotas() }
        if output.json { return JSON.print(quotas.map { QuotaAnswer($0) }) }
        var table = Table(
            ("QUOTA", .left), ("LIMIT", .right), ("REMAINING", .right), ("FULL AGAIN", .right))
        for quota in quotas {
            table.add(
                quota.name, "\(quota.limit)", "\(quota.remaining)",
                Self.text(quota.untilFullMilliseconds))
        }
        Terminal.print(table.text)
    }

    private static func text(_ milliseconds: UInt64?) -> String {
        guard let milliseconds else { return "when they end" }
        return milliseconds == 0 ? "now" : "in \(milliseconds) ms"
    }
}
