// SPDX-License-Identifier: Apache-2.0
//
// PostgreSQL servers of the tests: a primary and a synchronous standby on free ports of the loopback, in temporary
// folders. PostgreSQL refuses root, so root starts its programs as the user postgres. Rests on posix_spawn, because
// Foundation's Process waits for all who have inherited a descriptor, and a server inherits those of its starter.

import CSpawn
import Dispatch
import Foundation
import Glibc
import MartletCluster
import MartletPostgres
import TestSupport
import Testing

/// PostgreSQL's programs.
enum PostgresPrograms {
    private static let folder = "/usr/lib/postgresql/15/bin"
    /// The user and group who own the servers; nil: the tests' own.
    private static let owner: (user: uid_t, group: gid_t)? = {
        guard geteuid() == 0, let entry = getpwnam("postgres") else { return nil }
        return (entry.pointee.pw_uid, entry.pointee.pw_gid)
    }()

    static let areThere =
        access(folder + "/initdb", X_OK) == 0 && access(folder + "/postgres", X_OK) == 0
        && (geteuid() != 0 || owner != nil && access("/usr/bin/setpriv", X_OK) == 0)

    struct Failure: Error, CustomStringConvertible { var description: String }

    /// An empty folder of the servers' owner.
    static func temporaryFolder() throws -> String {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/martlet-postgres-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure(description: "mkdtemp in \(base): error \(errno)")
        }
        let path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        if let owner, chown(path, owner.user, owner.group) != 0 {
            throw Failure(description: "chown of \(path): error \(errno)")
        }
        return path
    }

    /// Starts a program of PostgreSQL. The child has no descriptor of this process.
    static func start(_ name: String, _ arguments: [String], output: String) throws -> pid_t {
        var words = [folder + "/" + name] + arguments
        if let owner {
            words =
                [
                    "/usr/bin/setpriv", "--reuid=\(owner.user)", "--regid=\(owner.group)",
                    "--clear-groups", "--",
                ] + words
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(
            &actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        posix_spawn_file_actions_addchdir_np(&actions, "/")
        var argv: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var environment: [UnsafeMutablePointer<CChar>?] =
            ["PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"].map { (text: String) in strdup(text) } + [
                nil
            ]
        defer { for text in argv + environment { free(text) } }
        var child: pid_t = 0
        let code = posix_spawn(&child, words[0], &actions, nil, &argv, &environment)
        guard code == 0 else { throw Failure(description: "posix_spawn \(name): error \(code)") }
        return child
    }

    static func run(_ name: String, _ arguments: [String], output: String) throws {
        let status = wait(for: try start(name, arguments, output: output))
        guard status == 0 else {
            throw Failure(description: "\(name) ended with \(status): \(text(of: output))")
        }
    }

    @discardableResult
    static func wait(for child: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return status
    }

    static func text(of path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    static func append(_ text: String, to path: String) throws {
        guard let file = fopen(path, "a") else {
            throw Failure(description: "\(path): error \(errno)")
        }
        defer { fclose(file) }
        fputs(text, file)
    }

    /// Writes a file that the servers' owner alone may read.
    static func write(secret text: String, to path: String) throws {
        try append(text, to: path)
        guard chmod(path, 0o600) == 0 else {
            throw Failure(description: "chmod of \(path): error \(errno)")
        }
        if let owner, chown(path, owner.user, owner.group) != 0 {
            throw Failure(description: "chown of \(path): error \(errno)")
        }
    }
}

/// The end of waiting for what should have come.
struct Patience {
    private let wanted: String
    private let deadline = PostgresDeadline(after: .seconds(20))

    init(_ wanted: String) { self.wanted = wanted }

    func wait() throws {
        guard !deadline.isOver else {
            throw PostgresPrograms.Failure(description: "waited in vain: \(wanted)")
        }
        usleep(5000)
    }
}

/// Work on a thread of its own, because calls of a log block.
final class BlockingWork<Value>: @unchecked Sendable {
    private let work: () throws -> Value
    private var result: Result<Value, any Error>?
    private let isDone = DispatchSemaphore(value: 0)

    init(_ work: @escaping () throws -> Value) {
        self.work = work
        Thread.detachNewThread { [self] in
            result = Result { try self.work() }
            isDone.signal()
        }
    }

    /// The result, once. The semaphore orders the accesses.
    @discardableResult
    func wait() throws -> Value {
        isDone.wait()
        return try result!.get()
    }
}

/// One server.
final class PostgresServer {
    let folder: String
    let port: UInt16
    private var process: pid_t?

    init(folder: String, port: UInt16) {
        self.folder = folder
        self.port = port
    }

    private var output: String { folder + ".log" }

    /// Starts the server, and returns when it answers.
    func start() throws {
        let process = try PostgresPrograms.start("postgres", ["-D", folder], output: output)
        self.process = process
        let patience = Patience("a server does not answer")
        while true {
            var status: Int32 = 0
            guard waitpid(process, &status, WNOHANG) == 0 else {
                self.process = nil
                throw PostgresPrograms.Failure(
                    description: "a server has ended: \(PostgresPrograms.text(of: output))")
            }
            if (try? connect()) != nil { return }
            try patience.wait()
        }
    }

    /// Ends the server at once, without a checkpoint, as a crash does. The files are as they were.
    func crash() {
        guard let process else { return }
        kill(process, SIGQUIT)
        PostgresPrograms.wait(for: process)
        self.process = nil
    }

    func promote() throws {
        try PostgresPrograms.run("pg_ctl", ["promote", "-w", "-D", folder], output: output)
    }

    /// A connection of the superuser, to look at the server past the log.
    func connect(database: String = "postgres") throws -> PostgresConnection {
        try PostgresConnection.open(
            [
                ("host", "127.0.0.1"), ("port", "\(port)"), ("user", "postgres"),
                ("dbname", database),
            ], until: PostgresDeadline(after: .ample))
    }

    /// Runs a statement of the superuser.
    @discardableResult
    func run(_ statement: String, in database: String = "postgres") throws -> PostgresResult {
        try connect(database: database).run(statement, until: PostgresDeadline(after: .ample))
    }

    /// Waits until a statement of the superuser gives true.
    func wait(until statement: String, in database: String = "postgres") throws {
        let connection = try connect(database: database)
        let patience = Patience(statement)
        while true {
            let result = try connection.run(statement, until: PostgresDeadline(after: .ample))
            if result.rowCount > 0, result.flag(0, 0) { return }
            try patience.wait()
        }
    }
}

/// A primary and its synchronous standby.
final class PostgresPair {
    private static let password = "a long pass word"

    let folder: String
    let primary: PostgresServer
    let standby: PostgresServer
    /// The file with the password of the log's user.
    let passwordFile: String
    private var stoppedSender: pid_t?
    private var databaseCount = 0

    init() throws {
        folder = try PostgresPrograms.temporaryFolder()
        passwordFile = folder + "/passwords"
        primary = PostgresServer(
            folder: folder + "/primary", port: try FreePort.claim())
        standby = PostgresServer(
            folder: folder + "/standby", port: try FreePort.claim())
        try makePrimary()
        try makeStandby()
    }

    private func makePrimary() throws {
        try PostgresPrograms.run(
            "initdb",
            [
                "-D", primary.folder, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                "--locale=C", "--no-sync", "--no-instructions",
            ], output: folder + "/primary.log")
        // A crash of a server's process keeps what was written, so nothing needs fsync.
        try PostgresPrograms.append(
            """
            port = \(primary.port)
            listen_addresses = '127.0.0.1'
            unix_socket_directories = ''
            fsync = off
            shared_buffers = 16MB
            max_connections = 40
            autovacuum = off

            """, to: primary.folder + "/postgresql.conf")
        let access = open(primary.folder + "/pg_hba.conf", O_WRONLY | O_TRUNC)
        close(access)
        try PostgresPrograms.append(
            """
            host replication postgres 127.0.0.1/32 trust
            host all postgres 127.0.0.1/32 trust
            host all martlet 127.0.0.1/32 scram-sha-256

            """, to: primary.folder + "/pg_hba.conf")
        try primary.start()
        try primary.run("create role martlet login password '\(Self.password)'")
        try PostgresPrograms.append("127.0.0.1:*:*:martlet:\(Self.password)\n", to: passwordFile)
        chmod(passwordFile, 0o600)
    }

    private func makeStandby() throws {
        try PostgresPrograms.run(
            "pg_basebackup",
            [
                "-d", "host=127.0.0.1 port=\(primary.port) user=postgres application_name=standby",
                "-D", standby.folder, "-X", "stream", "-c", "fast", "--no-sync", "-R",
            ], output: folder + "/standby.log")
        try PostgresPrograms.append(
            "port = \(standby.port)\n", to: standby.folder + "/postgresql.conf")
        try standby.start()
        try primary.run("alter system set synchronous_standby_names = 'ANY 1 (standby)'")
        try primary.run("select pg_reload_conf()")
        try waitForStandby()
    }

    func waitForStandby() throws {
        try primary.wait(
            until: """
                select exists (select 1 from pg_stat_replication
                                where sync_state = 'quorum' and state = 'streaming')
                """)
    }

    /// Ends everything.
    func end() {
        attachStandby()
        standby.crash()
        primary.crash()
        var child: pid_t = 0
        var argv: [UnsafeMutablePointer<CChar>?] =
            ["rm", "-rf", folder].map { (text: String) in strdup(text) } + [nil]
        defer { for text in argv { free(text) } }
        if posix_spawn(&child, "/bin/rm", nil, nil, &argv, nil) == 0 {
            PostgresPrograms.wait(for: child)
        }
    }

    // MARK: The standby

    /// Stops the process that sends to the standby: commits wait.
    func detachStandby() throws {
        let sender = pid_t(
            try primary.run("select pid from pg_stat_replication").integer(0, 0))
        kill(sender, SIGSTOP)
        stoppedSender = sender
    }

    func attachStandby() {
        guard let sender = stoppedSender else { return }
        kill(sender, SIGCONT)
        stoppedSender = nil
    }

    /// Ends the primary and the process that sends to the standby.
    func crashPrimary() {
        // A stopped process does not see that its server ends.
        if let sender = stoppedSender { kill(sender, SIGKILL) }
        stoppedSender = nil
        primary.crash()
    }

    /// Makes the primary speak TLS besides plain text, or plain text alone.
    /// - Parameter credentials: a certificate and its key in PEM form.
    func speakTLS(_ credentials: (certificate: String, key: String)?) throws {
        if let credentials {
            for (name, text) in [
                ("server.crt", credentials.certificate), ("server.key", credentials.key),
            ] {
                let path = primary.folder + "/" + name
                unlink(path)
                try PostgresPrograms.write(secret: text, to: path)
            }
        }
        let value = credentials == nil ? "off" : "on"
        try primary.run("alter system set ssl = \(value)")
        try primary.run("select pg_reload_conf()")
        try primary.wait(
            until: "select setting = '\(value)' from pg_settings where name = 'ssl'")
    }

    // MARK: Logs

    /// A new database with an empty schema of the log's user.
    func makeDatabase() throws -> String {
        databaseCount += 1
        let name = "log\(databaseCount)"
        try primary.run("create database \(name) owner martlet")
        return name
    }

    /// The address of a database of the pair.
    /// - Parameter hosts: HOST:PORT of each server; nil: the primary.
    func address(_ database: String, hosts: [UInt16]? = nil) throws -> PostgresAddress {
        let list = (hosts ?? [primary.port]).map { "127.0.0.1:\($0)" }.joined(separator: ",")
        return try PostgresAddress(
            "postgresql://martlet@\(list)/\(database)?passfile=\(passwordFile)")
    }
}

/// Has a pair while the tests of a suite run.
struct WithPostgres: SuiteTrait, TestScoping {
    @TaskLocal static var shared: Pair?

    /// The suite is serialized, so a pair has one user at a time.
    struct Pair: @unchecked Sendable {
        let pair: PostgresPair
    }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        guard PostgresPrograms.areThere else { return try await function() }
        let pair = Pair(pair: try PostgresPair())
        defer { pair.pair.end() }
        try await Self.$shared.withValue(pair) { try await function() }
    }
}
