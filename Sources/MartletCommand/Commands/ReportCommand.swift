// SPDX-License-Identifier: Apache-2.0
//
// `martlet report`: counts the outcomes of a message or of a project's messages (REP-1), and lists the instances
// without a message (REP-2). Rests on SenderOptions and ReportText.

import ArgumentParser
import FoundationEssentials
import Martlet
import MartletAnswers

struct ReportCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Show what became of a message, or of a project's messages.",
        discussion: """
                martlet report projects/tides/messages/42    # of a message
                martlet report 42 --project tides            # the same
                martlet report 42 --project tides --missing  # who has not got it
                martlet report tides --days 7 --by app       # of a project

            Every instance that a message was for has one outcome or is pending. Outcomes count for the \
            day on which the message was accepted, what was sent, displayed and opened for the day on \
            which that happened; days are UTC. With --json there are all counts, for each day and app.
            """)

    @Argument(
        help: "A message ID, as `martlet send` printed it, its number, or a project.")
    var subject: String?

    @Option(parsing: .unconditional, help: "The project.")
    var project: String?

    @Flag(
        help: "Of a message: list the tokens of those that have not got it, and count the reasons.")
    var missing = false

    @Option(
        parsing: .unconditional,
        help: "With --missing: go on after the cursor that another call ended with.")
    var after: String?

    @Option(
        parsing: .unconditional,
        help: "With --missing: tokens to list at most, 1 or more (default: 1000).")
    var limit: Int?

    @Option(
        parsing: .unconditional,
        help:
            "Of a project: how many days up to today, 1 to \(Limits.reportDaysAskedMax) (default: 30)."
    )
    var days: Int?

    @Option(parsing: .unconditional, help: "Of a project: only instances of this app.")
    var app: String?

    @Option(
        parsing: .unconditional,
        help: "Of a project: a row for each day, app or platform (default: day).")
    var by: Grouping?

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    enum Grouping: String, ExpressibleByArgument, CaseIterable {
        case day, app, platform
    }

    /// The subject of a report.
    private enum Subject {
        case message(String, project: String)
        case project(String)
    }

    private func named() throws -> Subject {
        guard let subject else {
            guard let project else {
                throw ValidationError("Give a message ID or a project.")
            }
            return .project(project)
        }
        if let project { return .message(subject, project: project) }
        guard subject.contains("/") else { return .project(subject) }
        let parts = subject.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "projects", parts[2] == "messages" else {
            throw ValidationError(
                "'\(subject)' is no message ID; it is projects/PROJECT/messages/NUMBER.")
        }
        return .message(subject, project: String(parts[1]))
    }

    func validate() throws {
        switch try named() {
        case .message:
            guard days == nil, app == nil, by == nil else {
                throw ValidationError("--days, --app and --by are for the report of a project.")
            }
            guard missing || (after == nil && limit == nil) else {
                throw ValidationError("--after and --limit go with --missing.")
            }
        case .project:
            guard !missing, after == nil, limit == nil else {
                throw ValidationError("--missing, --after and --limit are for a message.")
            }
        }
        guard limit ?? 1 > 0 else { throw ValidationError("--limit takes at least 1.") }
        guard (1...Limits.reportDaysAskedMax).contains(days ?? 1) else {
            throw ValidationError(
                "--days takes a number from 1 to \(Limits.reportDaysAskedMax).")
        }
    }

    func perform() async throws {
        switch try named() {
        case .message(let id, let project):
            if missing { return try await printMissing(id, project) }
            let report = try await connection.ask(project: project, folder: folder.folder) {
                sender in try await showing("Counting") { try await sender.report(of: id) }
            }
            if output.json { return JSON.print(MessageReportAnswer(report)) }
            Terminal.print(ReportText(hasBars: Terminal.hasScreen).text(report))
        case .project(let project):
            let report = try await connection.ask(project: project, folder: folder.folder) {
                try await self.report(of: project, $0)
            }
            if output.json { return JSON.print(ProjectReportAnswer(report)) }
            Terminal.print(
                ReportText(hasBars: Terminal.hasScreen).text(report, by: by ?? .day))
        }
    }

    private func printMissing(_ id: String, _ project: String) async throws {
        let (list, counts) = try await connection.ask(project: project, folder: folder.folder) {
            sender in
            var list = TokenList(messageID: id)
            let counts = try await sender.report(of: id).counts
            list.counts = CountsAnswer(counts)
            try await list.read("tokens", after: after ?? "", limit: limit ?? 1000) {
                after, limit in try await sender.notReceived(id, after: after, limit: limit)
            }
            return (list, counts)
        }
        list.print(json: output.json)
        // Beside the tokens, which another program may read.
        if !output.json { Terminal.printError(ReportText.reasons(counts)) }
    }

    private func report(
        of project: String, _ sender: any SenderInterface
    ) async throws -> ProjectReport {
        let now = Instant(millisecondsSince1970: Int64(Date.now.timeIntervalSince1970 * 1000))
        let last = Day(of: now)
        let days = last.before(UInt32((days ?? 30) - 1))...last
        var entries = try await allPages("days") { after in
            try await sender.reports(days: days, after: after)
        }
        if let app { entries.removeAll { $0.app != app } }
        return ProjectReport(project: project, days: days, entries: entries)
    }
}
