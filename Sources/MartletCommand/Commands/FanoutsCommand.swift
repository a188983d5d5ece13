// SPDX-License-Identifier: Apache-2.0
//
// `martlet fanouts`: lists messages on their way to many instances, and deferred messages (FAN-8). Rests on
// DataFolderAccess.

import ArgumentParser
import Martlet
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

    @Option(help: "Only those of this project.")
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

/// A message on its way to many instances, or a deferred message.
private struct FanoutAnswer: Encodable, Sendable {
    var project: String
    var messageID: String
    /// `topic`, `condition`, `group` or `several`.
    var kind: String
    var target: String
    /// Start of the fanout, in milliseconds since 1970; for a deferred message, the instant from which the message
    /// waits.
    var since: Int64
    /// Place among the project's deferred messages; nil: in progress.
    var deferredPlace: Int?
    var recipients: UInt64
    var delivered: UInt64
    /// Finished part of the fanout, 0 to 1.
    var progress: Double
    var deliveriesPerSecond: Double
    /// Part of the whole delivery capacity, 0 to 1.
    var share: Double
    var secondsLeft: Double?

    init(_ fanout: FanoutSummary) {
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
    fileprivate var name: String {
        switch self {
        case .token: "token"
        case .topic: "topic"
        case .condition: "condition"
        case .group: "group"
        case .several: "several"
        }
    }
}
