// SPDX-License-Identifier: Apache-2.0
//
// `martlet backup`: copies a data folder while its broker serves, in a process of its own beside the broker. The copy
// is from one snapshot, and the snapshot is checked as `martlet check` does. The broker waits for nothing: the process
// has its own map of the data file, and a bound on its speed. Rests on MartletStore and ReadingProcess.

import ArgumentParser
import FoundationEssentials
import Glibc
import Martlet
import MartletAnswers
import MartletEngine
import MartletStore

struct BackupCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy a data folder, while its broker serves or not.",
        discussion: """
            Writes the files 'rows' and 'manifest.json' into a new or empty folder; without the manifest \
            a folder is no backup. With - the backup is one stream on standard output, and what would be \
            on standard output is on standard error. A backup has the administrator key and all device \
            keys' digests: keep it as you keep the data folder.
            """)

    @Argument(
        help: ArgumentHelp("A new or empty folder, or - for standard output.", valueName: "folder"))
    var destination: String

    @Option(
        parsing: .unconditional,
        help: "Speed of the copy at most, in MiB a second, 0 to 1000000; 0: any.")
    var mebibytesPerSecond = 200

    @Flag(name: .customLong(ReadingProcess.flag), help: .private)
    var inThisProcess = false

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    /// OPS-7: the words of a backup of a folder to standard output, by a process that reads nothing but the folder.
    static func words(of folder: String) -> [String] {
        ["/proc/self/exe", "backup", "-", "--data", folder, "--" + ReadingProcess.flag]
    }

    private var isStream: Bool { destination == "-" }

    func validate() throws {
        guard (0...1_000_000).contains(mebibytesPerSecond) else {
            throw ValidationError("--mebibytes-per-second takes a number from 0 to 1000000.")
        }
    }

    func perform() async throws {
        let folder = try folder.access.existingFolder()
        guard !isStream || isatty(STDOUT_FILENO) == 0 else {
            throw ValidationError("A backup is no text for a terminal; give a file or a pipe.")
        }
        guard inThisProcess else {
            return try ReadingProcess.run(reading: folder, work: "The backup")
        }
        ReadingProcess.giveWay()
        do { try backUp(folder) } catch { throw StoreOpenError(damageIn: folder, error) ?? error }
    }

    private func backUp(_ folder: String) throws {
        let store = try Store.forReading(folder)
        let summary: BackupSummary
        if isStream {
            summary = try copy(store, folder, to: STDOUT_FILENO)
        } else {
            let files = try BackupFiles(making: destination, of: folder)
            do {
                summary = try files.withRows { try copy(store, folder, to: $0) }
                try files.end(BackupManifest(summary).text)
            } catch {
                files.remove()
                throw error
            }
        }
        let manifest = BackupManifest(summary)
        let text =
            output.json
            ? JSON.line(manifest)
            : manifest.sentence("Backed up", isStream ? "to standard output" : "to \(destination)")
        if isStream { Terminal.printError(text) } else { Terminal.print(text) }
    }

    private func copy(
        _ store: Store, _ folder: String, to descriptor: Int32
    ) throws -> BackupSummary {
        let progress = Progress("Backing up")
        defer { progress.end() }
        return try store.backUp(
            to: descriptor, folder: folder,
            created: Int64(Date().timeIntervalSince1970 * 1000),
            bytesPerSecond: mebibytesPerSecond << 20, progress: progress.show)
    }
}

struct RestoreCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Make a data folder of a backup.",
        discussion: """
            The data folder must be new or empty. It becomes a data folder only when the backup has \
            proved whole and everything in it agrees. Messages go on with numbers far behind those of \
            the backup, so that devices take none for one that they have had.
            """)

    @Argument(
        help: ArgumentHelp(
            "The folder that `martlet backup` made, or a file with its stream, or - for standard input.",
            valueName: "backup"))
    var backup: String

    @Argument(help: ArgumentHelp("The new data folder.", valueName: "folder"))
    var folder: String

    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let (descriptor, manifest) = try BackupFiles.open(backup)
        defer { close(descriptor) }
        let progress = Progress("Restoring")
        defer { progress.end() }
        let destination = try RestoredFolder(folder)
        let summary = try destination.restore(from: descriptor, progress: progress.show) {
            guard manifest == nil || manifest == BackupManifest($0) else {
                throw BackupError.damaged("its manifest is that of another backup")
            }
        }
        progress.end()
        let restored = BackupManifest(summary)
        Terminal.print(
            output.json ? JSON.line(restored) : restored.sentence("Restored", "into \(folder)"))
    }
}

extension Progress {
    func show(_ state: BackupProgress) {
        switch state {
        case .rows(let done, let total?):
            let bar = Bars.bar(done, of: total, cells: 20)
            let rest = String(repeating: "·", count: max(0, 20 - bar.count))
            show("\(bar)\(rest) \(done) of \(total) rows (\(100 * done / max(1, total)) %)")
        case .rows(let done, nil): show("\(done) rows")
        case .checking(let state):
            show("checking project \(state.projectsDone + 1) of \(state.projectCount)")
        }
    }
}
