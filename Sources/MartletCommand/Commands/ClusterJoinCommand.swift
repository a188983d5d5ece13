// SPDX-License-Identifier: Apache-2.0
//
// `martlet cluster join`: makes the data folder of another node from a backup of any node (OPS-7). The backup is there, or
// comes over an administrator's connection. Rests on RestoredFolder and MartletAdministrator.

import ArgumentParser
import Dispatch
import Glibc
import Martlet
import MartletAnswers
import MartletClient
import MartletStore

struct ClusterJoinCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Make the data folder of a further node.",
        discussion: """
            With --from, the folder is made of a backup that a serving node hands out now, to the holder \
            of the administrator key: `martlet cluster join --from db1:5228 --ca ca.pem --admin-key \
            admin.key FOLDER`. Without, it is made of a backup that is there: `martlet cluster join \
            BACKUP FOLDER`, with the folder that `martlet backup` made on any node, a file with its \
            stream, or - for standard input. The new node goes on where the backup ends, and reads the \
            rest from the log, which keeps rows for an hour and as long as a node needs them.
            """)

    @Argument(
        help: ArgumentHelp(
            "The backup, unless --from is given, and the new data folder.", valueName: "folder"))
    var places: [String]

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Take the backup from the node that serves here. Administrators of other machines need TLS.",
            valueName: "host:port"))
    var from: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "A file with the administrator key, for --from: a copy of 'admin.key' of any node.",
            valueName: "file"))
    var adminKey: String?

    @OptionGroup var tls: ClientTLSOptions
    @OptionGroup var output: OutputOptions

    private var source: (host: String, port: Int)? {
        guard let place = from.flatMap({ HostPort($0) }), place.port > 0 else { return nil }
        return (place.host, Int(place.port))
    }

    func validate() throws {
        guard (from == nil) == (adminKey == nil) else {
            throw ValidationError("--from and --admin-key go together.")
        }
        guard from == nil || source != nil else {
            throw ValidationError("--from takes HOST:PORT of a serving node.")
        }
        guard places.count == (from == nil ? 2 : 1) else {
            throw ValidationError(
                from == nil
                    ? "Give a backup and the new folder, or --from and the new folder."
                    : "With --from, give the new folder alone.")
        }
    }

    func perform() async throws {
        let folder = places[places.count - 1]
        let summary: BackupSummary
        if let source, let adminKey {
            summary = try await join(source, try KeyInput(path: adminKey).secret, folder)
        } else {
            let (descriptor, manifest) = try BackupFiles.open(places[0])
            defer { close(descriptor) }
            summary = try RestoredFolder(folder).restore(
                from: descriptor, asNode: true, progress: { _ in }
            ) {
                guard manifest == nil || manifest == BackupManifest($0) else {
                    throw BackupError.damaged("its manifest is that of another backup")
                }
            }
        }
        let made = BackupManifest(summary)
        Terminal.print(
            output.json ? JSON.line(made) : made.sentence("Joined", "with \(folder)"))
    }

    // MARK: Over a connection

    /// Makes the folder of a backup that a node hands out.
    private func join(
        _ source: (host: String, port: Int), _ key: [UInt8], _ folder: String
    ) async throws -> BackupSummary {
        let administrator = MartletAdministrator(
            host: source.host, port: source.port,
            administratorKey: String(decoding: key, as: UTF8.self),
            options: try tls.applied(to: .once))
        // A folder that cannot be made has stopped reading, and its error is the one to be told.
        signal(SIGPIPE, SIG_IGN)
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw MartletError(
                .unavailable, "No pipe can be made: \(String(cString: strerror(errno))).")
        }
        let (reading, writing) = (ends[0], ends[1])
        // A folder in use is refused before a node makes a backup for it.
        if access(folder, F_OK) == 0 { _ = try RestoredFolder(folder) }
        async let restored = Self.restore(folder, from: reading)
        let fetched: Result<Void, any Error>
        do {
            try await administrator.connect()
            fetched = .success(try await Self.fetch(administrator, into: writing))
        } catch {
            fetched = .failure(error)
        }
        // Without its end a stream is not whole, and makes no folder.
        close(writing)
        await administrator.close()
        let summary: BackupSummary
        do { summary = try await restored } catch {
            try fetched.get()
            throw error
        }
        try fetched.get()
        return summary
    }

    /// Writes a node's backup into a pipe, until the pipe is not read from any more.
    private static func fetch(
        _ administrator: MartletAdministrator, into pipe: Int32
    ) async throws {
        var backup: UInt64 = 0
        while true {
            let part = try await administrator.backupPart(of: backup)
            backup = part.backup
            var left = part.content[...]
            while !left.isEmpty {
                let count = left.withUnsafeBytes { write(pipe, $0.baseAddress, $0.count) }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                left = left.dropFirst(count)
            }
            if part.isLast { return }
            if part.content.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
        }
    }

    /// Restores on a thread of its own, because a restore waits for the disk and for the pipe.
    private static func restore(_ folder: String, from pipe: Int32) async throws -> BackupSummary {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                let result = Result {
                    defer { close(pipe) }
                    return try RestoredFolder(folder).restore(
                        from: pipe, asNode: true, progress: { _ in }, accepts: { _ in })
                }
                continuation.resume(with: result)
            }
        }
    }
}
