// SPDX-License-Identifier: Apache-2.0
//
// `martlet fanouts`: lists messages on their way to many instances, and deferred messages (FAN-8). Rests on
// DataFolderAccess.

import ArgumentParser
import Martlet
import MartletAnswers
import MartletClient

struct FanoutsCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanouts",
        abstract: "List messages on their way to many instances.",
        discussion: """
            Progress is how much of the recipients has been gone through; who is not connected finds \
            the message later. Share is the part of the whole delivery capacity. Messages that wait \
            until others have ended come last, with their place.
            """)

    @Option(parsing: .unconditional, help: "Only those of this project.")
    var project: String?

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard connection.key == nil || project != nil else {
            throw ValidationError("--key goes with --project.")
        }
    }

    func perform() async throws {
        let fanouts = try await list()
        if output.json { return JSON.print(fanouts) }
        guard !fanouts.isEmpty else { return Terminal.print("Nothing is in progress.") }
        var table = Table(
            ("MESSAGE", .left), ("TO", .left), ("AUDIENCE", .right), ("DELIVERED", .right),
            ("PROGRESS", .right), ("PER SECOND", .right), ("SHARE", .right), ("LEFT", .right))
        for fanout in fanouts {
            let target = Self.shown(fanout)
            if let place = fanout.deferredPlace {
                table.add(
                    fanout.messageID, target, "-", "-", "waits, \(place).", "-", "-", "-")
            } else {
                table.add(
                    fanout.messageID, target, Quantity.short(Double(fanout.recipients)),
                    Quantity.short(Double(fanout.delivered)), Quantity.percent(fanout.progress),
                    Quantity.short(fanout.deliveriesPerSecond), Quantity.percent(fanout.share),
                    fanout.secondsLeft.map { Quantity.duration($0) } ?? "-")
            }
        }
        Terminal.print(table.text)
    }

    private func list() async throws -> [FanoutAnswer] {
        let fanouts: [FanoutSummary]
        if let project,
            let sender = try connection.sender(project: project, folder: folder.folder)
        {
            fanouts = try await allPages("fanouts") { try await sender.fanouts(after: $0) }
            await sender.close()
        } else {
            fanouts = try await folder.access.administrator { administrator in
                try await allPages("fanouts") {
                    try await administrator.fanouts(in: project, after: $0)
                }
            }
        }
        return fanouts.map { FanoutAnswer($0) }
    }

    private static let targetCharactersMax = 40

    private static func shown(_ fanout: FanoutAnswer) -> String {
        let text = fanout.kind == "topic" ? "/topics/" + fanout.target : fanout.target
        let cut =
            text.count > targetCharactersMax
            ? text.prefix(targetCharactersMax - 1) + "…" : text
        return cut.withoutControls
    }
}
