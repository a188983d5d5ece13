// SPDX-License-Identifier: Apache-2.0
//
// `martlet check`: compares every index of a data folder with every other index, on one snapshot; a broker may serve
// the folder. With --backup it verifies a backup instead. Rests on MartletStore and ReadingProcess.

import ArgumentParser
import Glibc
import Martlet
import MartletAnswers
import MartletEngine
import MartletStore

struct CheckCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check that everything in a data folder agrees, or that a backup is whole.",
        discussion: """
            Beside a running broker the check reads one snapshot. Ends with 0 where nothing was found, \
            with 1 where something was. With --backup every byte of the backup is read and compared \
            with its digest and manifest; nothing is written.
            """)

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Verify this backup instead: a folder that `martlet backup` made, a file with its stream, or "
                + "- for standard input.", valueName: "backup"))
    var backup: String?

    @Flag(help: .private)
    var inThisProcess = false

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    private struct Answer: Encodable {
        struct Problem: Encodable {
            var kind: String
            /// The project's number; nil for a problem outside projects.
            var project: UInt32?
            var detail: String
        }

        var clean: Bool
        var problemCount: UInt64
        /// The first problems found.
        var problems: [Problem]
        var counts: [String: UInt64]
    }

    func validate() throws {
        guard backup == nil || folder.folder == nil else {
            throw ValidationError("--backup and --data exclude each other.")
        }
    }

    func perform() async throws {
        if let backup { return try verify(backup) }
        let folder = try folder.access.existingFolder()
        guard inThisProcess else {
            return try ReadingProcess.run(reading: folder, work: "The check")
        }
        ReadingProcess.giveWay()
        do { try check(folder) } catch { throw StoreOpenError(damageIn: folder, error) ?? error }
    }

    private func verify(_ path: String) throws {
        let (descriptor, manifest) = try BackupFiles.open(path)
        defer { close(descriptor) }
        let progress = Progress("Verifying")
        defer { progress.end() }
        let summary = try VerifiedBackup.verify(descriptor, progress: progress.show)
        guard manifest?.describes(summary) ?? true else {
            throw BackupError.damaged("its manifest is that of another backup")
        }
        progress.end()
        var found = BackupManifest(summary)
        found.projects = manifest?.projects ?? []
        Terminal.print(
            output.json
                ? JSON.line(found)
                : "The backup of \(found.created) is whole: \(found.rows) rows, "
                    + "\(Quantity.bytes(found.bytes)). `martlet restore` can use it.")
    }

    private func check(_ folder: String) throws {
        let store = try Store.forReading(folder)
        let progress = Progress("Checking")
        let report = try store.check { state in
            let counts = state.counts
            progress.show(
                "project \(state.project), \(state.projectsDone + 1) of \(state.projectCount); "
                    + "\(counts.instances) instances, \(counts.messages) messages")
        }
        progress.end()
        let counts: KeyValuePairs = [
            "projects": report.counts.projects, "keys": report.counts.keys,
            "apps": report.counts.apps, "instances": report.counts.instances,
            "topics": report.counts.topics, "subscriptions": report.counts.subscriptions,
            "groups": report.counts.groups,
            "messages": report.counts.messages, "recipients": report.counts.recipients,
        ]
        if output.json {
            JSON.print(
                Answer(
                    clean: report.isClean, problemCount: report.problemCount,
                    problems: report.problems.map {
                        .init(
                            kind: $0.kind.rawValue, project: $0.project?.rawValue,
                            detail: $0.detail)
                    },
                    counts: Dictionary(uniqueKeysWithValues: counts.map { ($0.key, $0.value) })))
        } else {
            Terminal.print(
                "Looked at "
                    + counts.map { "\($0.value) \($0.key)" }.joined(separator: ", ") + ".")
            for problem in report.problems {
                Terminal.print("\(problem)".withoutControls)
            }
            Terminal.print(
                report.isClean
                    ? "Everything agrees."
                    : "\(report.problemCount) problems. Keep a copy of the folder before anything "
                        + "else is done with it.")
        }
        if !report.isClean { throw ExitCode.failure }
    }
}
