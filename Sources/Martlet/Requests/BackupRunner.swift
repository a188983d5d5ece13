// SPDX-License-Identifier: Apache-2.0
//
// Makes backups for administrators who are connected (OPS-7). A process of its own reads the folder, as it does for `martlet
// backup`: a snapshot of this process would hold the growth of the map up, and a damaged file may end the reading process. The
// stream comes through a pipe, and the process writes on when the administrator has asked for the next part. Rests on POSIX
// processes.

import Glibc
import Logging
import MartletBase
import MartletThreads
import MartletWire
import Synchronization

/// Hands out one backup at a time.
final class BackupRunner: Sendable {
    /// Bytes of a part: a pipe of Linux has so many.
    private static let partBytesMax = 64 * 1024

    private struct Running {
        let number: UInt64
        let process: pid_t
        let pipe: Int32
        /// When the administrator asked last, in milliseconds of the monotonic clock.
        var asked: Int64
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var running: Running?
        var isClosed = false
    }

    private let command: [String]
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter command: the program that writes a backup to standard output, and its arguments; empty: the broker
    ///   hands out no backups.
    init(_ command: [String], _ logger: Logger) {
        self.command = command
        self.logger = logger
    }

    deinit { end() }

    /// Ends a backup under way. Later requests are refused.
    func end() {
        let running = state.withLock { state in
            state.isClosed = true
            return state.running.take()
        }
        if let running { Self.end(running) }
    }

    /// The next bytes of a backup, as far as they are there.
    /// - Parameter backup: the number of the backup; 0: a new backup begins.
    /// - Throws: `RESOURCE_EXHAUSTED` if another backup is under way and asked for; `UNAVAILABLE` if the backup has ended
    ///   or failed.
    func part(of backup: UInt64) throws(MartletError) -> BackupPart {
        let result = state.withLock { state -> Result<BackupPart, MartletError> in
            do throws(MartletError) {
                if backup == 0 { try begin(&state) }
                return .success(try next(of: backup, &state))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func next(of backup: UInt64, _ state: inout State) throws(MartletError) -> BackupPart {
        guard var running = state.running, backup == 0 || backup == running.number else {
            throw MartletError(
                .unavailable, "The backup has ended, because it was not asked for in time.",
                field: "backup")
        }
        running.asked = SystemClock.monotonicMilliseconds()
        state.running = running
        var bytes = [UInt8](repeating: 0, count: Self.partBytesMax)
        let count = read(running.pipe, &bytes, bytes.count)
        guard count != 0 else {
            state.running = nil
            guard Self.end(running) == 0 else {
                throw MartletError(
                    .internal, "The backup could not be made; the broker's log has the reason.",
                    field: "backup")
            }
            return BackupPart(backup: running.number, isLast: true, content: [])
        }
        return BackupPart(
            backup: running.number, isLast: false, content: Array(bytes.prefix(max(0, count))))
    }

    private func begin(_ state: inout State) throws(MartletError) {
        guard !command.isEmpty, !state.isClosed else {
            throw MartletError(.unavailable, "This broker hands out no backups.", field: "backup")
        }
        if let running = state.running {
            guard Self.silence(of: running) > Int64(Limits.backupYieldSeconds) * 1000 else {
                throw MartletError(
                    .resourceExhausted, "Another backup is under way; try again later.",
                    field: "backup",
                    retryDelayMilliseconds: UInt32(Limits.backupYieldSeconds) * 1000)
            }
            state.running = nil
            Self.end(running)
        }
        let (process, pipe) = try Self.start(command)
        state.lastNumber += 1
        let number = state.lastNumber
        state.running = Running(
            number: number, process: process, pipe: pipe,
            asked: SystemClock.monotonicMilliseconds())
        do throws(MartletError) {
            try SystemThread(name: "martlet-backup") { [weak self] in
                while self?.isWanted(number) ?? false { SystemClock.pause(microseconds: 200_000) }
            }.detach()
        } catch {
            if let running = state.running.take() { Self.end(running) }
            throw error
        }
        logger.notice("a backup is handed out to an administrator")
    }

    /// Whether a backup goes on. A backup that nobody asks for ends, because its snapshot keeps the space of deleted
    /// rows.
    private func isWanted(_ number: UInt64) -> Bool {
        let (left, isWanted) = state.withLock { state -> (Running?, Bool) in
            guard let running = state.running, running.number == number else { return (nil, false) }
            guard Self.silence(of: running) > Int64(Limits.backupIdleSeconds) * 1000 else {
                return (nil, true)
            }
            state.running = nil
            return (running, false)
        }
        if let left { Self.end(left) }
        return isWanted
    }

    /// Milliseconds since the last request for a part.
    private static func silence(of running: Running) -> Int64 {
        SystemClock.monotonicMilliseconds() - running.asked
    }

    // MARK: The process

    /// Starts the process.
    /// - Returns: its number, and the end of its output, which is read without waiting.
    private static func start(
        _ command: [String]
    ) throws(MartletError) -> (process: pid_t, pipe: Int32) {
        func failure(_ code: Int32) -> MartletError {
            MartletError(
                .unavailable, "The backup cannot begin: \(String(cString: strerror(code))).",
                field: "backup")
        }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw failure(errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The broker's threads block signals, and a process that nobody reads from must end.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var arguments: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
        // A crash is a result, so the process prints no backtrace.
        var variables = ["SWIFT_BACKTRACE=enable=no"]
        for name in ["PATH", "LD_LIBRARY_PATH", "TMPDIR"] {
            if let value = getenv(name) { variables.append("\(name)=\(String(cString: value))") }
        }
        var environment: [UnsafeMutablePointer<CChar>?] = variables.map { strdup($0) } + [nil]
        defer { for text in arguments + environment { free(text) } }
        var process: pid_t = 0
        let code = posix_spawn(
            &process, command[0], &actions, &attributes, &arguments, &environment)
        close(ends[1])
        guard code == 0 else {
            close(ends[0])
            throw failure(code)
        }
        return (process, ends[0])
    }

    /// Ends the process, if it has not ended by itself.
    /// - Returns: its exit code; nil: it was killed.
    @discardableResult
    private static func end(_ running: Running) -> Int32? {
        // At the end of its output the process is about to end. Without a reader it ends by SIGPIPE.
        close(running.pipe)
        var status: Int32 = 0
        for _ in 0..<100 {
            let ended = waitpid(running.process, &status, WNOHANG)
            if ended == running.process { return status & 0x7F == 0 ? status >> 8 & 0xFF : nil }
            if ended < 0, errno != EINTR { return nil }
            SystemClock.pause(microseconds: 20_000)
        }
        kill(running.process, SIGKILL)
        while waitpid(running.process, &status, 0) < 0, errno == EINTR {}
        return nil
    }
}

extension BackupRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> BackupPart {
        try principal.checkAdministrator()
        guard let backups = answerer.backups else {
            throw MartletError(.unavailable, "This broker hands out no backups.", field: "backup")
        }
        return try backups.part(of: backup)
    }
}
