// SPDX-License-Identifier: Apache-2.0
//
// `martlet check`: compares every index of a data folder with every other index, while no broker serves the folder.
// LMDB trusts its file, and a damaged file may end the process that reads it. So the command starts the same program
// a second time to read the store, and reports the end of the second process in a sentence. Rests on MartletStore.

import ArgumentParser
import FoundationEssentials
import Glibc
import Martlet
import MartletEngine
import MartletStore

struct CheckCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check that everything in a data folder agrees.",
        discussion: """
            The broker of the folder must not run. Ends with 0 where nothing was found, with 1 where \
            something was.
            """)

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

    func perform() async throws {
        let folder = try folder.access.existingFolder()
        guard inThisProcess else { return try Self.checkElsewhere(folder) }
        do { try check(folder) } catch { throw StoreOpenError(damageIn: folder, error) ?? error }
    }

    /// Runs the command again, in a process of its own.
    private static func checkElsewhere(_ folder: String) throws {
        var arguments: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) }
        arguments += [strdup("--in-this-process"), nil]
        // A crash is a result, reported below, so the second process prints no backtrace.
        var variables = ProcessInfo.processInfo.environment
        variables["SWIFT_BACKTRACE"] = "enable=no"
        var environment: [UnsafeMutablePointer<CChar>?] = variables.map { strdup("\($0)=\($1)") }
        environment.append(nil)
        defer { for text in arguments + environment { free(text) } }
        var child: pid_t = 0
        let code = posix_spawn(&child, "/proc/self/exe", nil, nil, &arguments, &environment)
        guard code == 0 else {
            throw MartletError(
                .unavailable, "No process can be started: \(String(cString: strerror(code))).")
        }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        let (signal, exitCode) = (status & 0x7F, status >> 8 & 0xFF)
        switch (signal, exitCode) {
        case (0, 0): return
        case (0, StoreConfiguration.damageExitCode):
            throw StoreOpenError.damaged(
                folder + "/data.mdb", text: "LMDB finds a page in it that it never wrote")
        case (0, _): throw ExitCode(exitCode)
        case (SIGINT, _), (SIGTERM, _), (SIGHUP, _), (SIGKILL, _):
            throw MartletError(
                .unavailable,
                "The check was ended (\(String(cString: strsignal(signal)))) before it was done.")
        default:
            throw StoreOpenError.damaged(
                folder + "/data.mdb",
                text: "reading it ended with '\(String(cString: strsignal(signal)))'")
        }
    }

    private func check(_ folder: String) throws {
        var configuration = StoreConfiguration(folder: folder)
        configuration.purpose = .trial
        let store = try Store(configuration)
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
