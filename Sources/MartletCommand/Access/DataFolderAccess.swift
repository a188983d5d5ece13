// SPDX-License-Identifier: Apache-2.0
//
// Finds the process that answers for a data folder. A folder belongs to one process at a time, so the folder's lock
// tells whether a broker runs. A free folder is opened in this process. For a folder in use, the broker's address and
// key are read from the folder. The key leaves only while the broker that wrote the address listens there. Rests on
// the embedding API and MartletClient.

import ArgumentParser
import Glibc
import Logging
import Martlet
import MartletClient
import MartletFiles
import MartletStore

/// A data folder on this machine.
struct DataFolderAccess {
    let folder: String

    /// The folder that is nowhere named.
    static let usualFolder = "./martlet-data"

    /// Takes the folder of --data, else that of the settings, else `./martlet-data`.
    /// - Throws: the fault of a file of settings.
    init(option: String?) throws(Misuse) {
        if let option {
            folder = option
        } else {
            folder = try Settings.folder() ?? Self.usualFolder
        }
    }

    /// The path of the folder, if the folder has a store.
    /// - Throws: `NOT_FOUND` without a store, `PERMISSION_DENIED` for a folder of another user.
    func existingFolder() throws -> String {
        try Store.requireNoRestore(in: folder)
        var status = stat()
        guard stat(folder + "/data.mdb", &status) == 0 else {
            guard errno != EACCES else {
                throw MartletError(
                    .permissionDenied,
                    "The folder '\(folder)' belongs to another user. Run the command as its owner.",
                    field: "data")
            }
            throw MartletError(
                .notFound,
                "'\(folder)' is no data folder. Give one with --data, MARTLET_DATA or MARTLET_CONFIG; "
                    + "`martlet serve` and `martlet project create` make it.", field: "data")
        }
        return folder
    }

    private enum Found {
        case embedded(Broker)
        /// An administrator whose connection is open.
        case running(MartletAdministrator)
    }

    /// Asks as administrator: the broker that serves the folder, else the folder itself.
    /// - Parameter project: the project that the question is about, if it is about one.
    func administrator<Answer>(
        of project: String? = nil, creating: Bool = false,
        _ ask: (any AdministratorInterface) async throws -> Answer
    ) async throws -> Answer {
        try await suggesting(project) {
            switch try await find(creating: creating) {
            case .embedded(let broker):
                return try await closing(broker.close) { try await ask(broker) }
            case .running(let administrator):
                return try await closing(administrator.close) { try await ask(administrator) }
            }
        }
    }

    /// Asks, and names the project that was meant if there is none with the name. An administrator may know all names.
    private func suggesting<Answer>(
        _ project: String?, _ ask: () async throws -> Answer
    ) async throws -> Answer {
        do { return try await ask() } catch var error as MartletError {
            guard error.word == .notFound, error.field == "project", let project,
                let names = try? await administrator({ try await $0.projects(after: "").entries }),
                let meant = Nearest.name(to: project, among: names.map(\.id))
            else { throw error }
            error.message = "There is no project '\(project)'. Did you mean '\(meant)'?"
            throw error
        }
    }

    /// Tells a mistyped project to somebody who may know. A device would hear what it hears about a wrong key. Any other
    /// failure is the device's to find.
    func requireProject(_ project: String) async throws(MartletError) {
        do {
            _ = try await administrator(of: project) { try await $0.policies(of: project) }
        } catch let error as MartletError where error.word == .notFound {
            throw error
        } catch {}
    }

    /// The broker that serves the folder.
    /// - Throws: `UNAVAILABLE` if no broker serves the folder.
    func runningBroker() async throws -> MartletAdministrator {
        switch try await find(creating: false) {
        case .embedded(let broker):
            try await broker.close()
            throw MartletError(
                .unavailable, "No broker serves '\(folder)'; `martlet serve` starts one.",
                field: "data")
        case .running(let administrator): return administrator
        }
    }

    /// Asks as the project's sender: the broker that serves the folder, else the folder itself.
    func sender<Answer>(
        project: String, _ ask: (any SenderInterface) async throws -> Answer
    ) async throws -> Answer {
        try await suggesting(project) {
            switch try await find(creating: false, project: project) {
            case .embedded(let broker):
                // A connection to an unknown project is refused before its first request.
                return try await closing(broker.close) {
                    _ = try broker.project(project)
                    return try await ask(broker.sender(in: project))
                }
            case .running(let administrator):
                return try await closing(administrator.close) {
                    try await ask(administrator.sender)
                }
            }
        }
    }

    /// - Parameter project: the project that the administrator's connection names; empty for none.
    private func find(creating: Bool, project: String = "") async throws -> Found {
        if !creating { _ = try existingFolder() }
        var configuration = BrokerConfiguration(folder: folder)
        configuration.logger = .standardError(.error)
        // Another command may hold the folder for a moment, or a broker may be about to listen.
        let deadline = ContinuousClock.now + .seconds(3)
        while true {
            do {
                let broker = try await Broker.open(configuration)
                if broker.isFolderNew {
                    Terminal.printError(
                        "'\(folder)' is a new data folder, and no broker serves it; 'martlet serve "
                            + "--data \(folder)' does.")
                }
                return .embedded(broker)
            } catch let error as StoreOpenError {
                guard case .inUse = error else { throw error }
                let obstacle: Obstacle
                do throws(Obstacle) { return try await running(project) } catch { obstacle = error }
                if let answer = obstacle.answer { throw answer }
                guard !obstacle.isFinal, ContinuousClock.now < deadline else {
                    throw MartletError(
                        .unavailable,
                        "A broker serves '\(folder)', and this command could not ask it: "
                            + obstacle.text, field: "data")
                }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    /// Why the broker that serves the folder cannot be asked, and what to do.
    private struct Obstacle: Error {
        var text: String
        /// Whether another attempt would end in the same way.
        var isFinal = false
        /// What the broker said about the project: the broker can be asked.
        var answer: MartletError?
    }

    /// The broker that serves the folder. The connection that shows whether the broker can be asked stays open for the
    /// requests, because each connection costs a handshake.
    private func running(_ project: String) async throws(Obstacle) -> Found {
        guard let address = ServedAddress(in: folder) else {
            throw Obstacle(text: unreadable("serve.address") ?? Self.noAddress)
        }
        guard let key = read("admin.key"), !key.isEmpty else {
            throw Obstacle(
                text: unreadable("admin.key")
                    ?? "the file 'admin.key' is missing or empty. Restore the file; or restart the "
                    + "broker, which makes another key.")
        }
        do {
            let administrator = try administrator(at: address, key: key, project: project)
            do { try await administrator.connect() } catch {
                await administrator.close()
                throw error
            }
            return .running(administrator)
        } catch {
            guard let error = error as? MartletError else {
                throw Obstacle(text: NetworkFailure.words(error))
            }
            if error.word == .notFound { throw Obstacle(text: error.message, answer: error) }
            guard error.word == .unauthenticated else { throw Obstacle(text: error.message) }
            throw Obstacle(
                text: "the broker refuses the key in 'admin.key'. Restore the file; or restart the "
                    + "broker, which reads the file when it starts.", isFinal: true)
        }
    }

    private static let noAddress =
        "no broker listens at the address in 'serve.address', or the file is missing. Another "
        + "command may hold the folder: wait for its end. A broker that started on a full disk "
        + "writes the file when the disk has room. A broker whose listeners all have ',proxy' "
        + "writes no address: give it one more, such as --listen 127.0.0.1:5229,plain."

    /// Why a file of the folder cannot be read; nil for a file that can, and for a missing file.
    private func unreadable(_ name: String) -> String? {
        let descriptor = open(folder + "/" + name, O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        guard errno != ENOENT else { return nil }
        return "'\(name)' cannot be read (\(String(cString: strerror(errno)))). Run the command as "
            + "the broker's user."
    }

    /// The address at which the folder's gateway exchanges assertions for tokens; nil without a gateway.
    var tokenURI: String? { read("http.address") }

    // MARK: Registration keys

    private func registrationKeyPath(of project: String) -> String {
        folder + "/registration-" + project + ".key"
    }

    /// REG-7: the registration key that `martlet project create` left in the folder; nil without such a file.
    func registrationKey(of project: String) -> String? {
        guard !project.contains("/") else { return nil }
        return read("registration-" + project + ".key")
    }

    /// REG-7: removes the file with a registration key that was revoked, so that no device presents the key.
    /// - Returns: the name of the removed file; nil if the file has another key, or if there is none.
    func forgetRegistrationKey(_ id: String, of project: String) -> String? {
        let path = registrationKeyPath(of: project)
        guard let text = registrationKey(of: project), text.prefix(while: { $0 != "." }) == id,
            unlink(path) == 0
        else { return nil }
        return path
    }

    /// REG-7: keeps the registration key of a new project for `martlet listen`, for the folder's owner alone.
    func keepRegistrationKey(_ key: String, of project: String) throws {
        try PrivateFile.replace(
            registrationKeyPath(of: project), with: Array((key + "\n").utf8))
    }

    /// An administrator that sends the key to the folder's broker and to nobody else.
    private func administrator(
        at address: ServedAddress, key: String, project: String
    ) throws -> MartletAdministrator {
        var options = ClientOptions.once
        options.encryption = try address.encryption
        options.beforeHello = { () throws(MartletError) in
            guard address.isServed() else {
                throw MartletError(.unavailable, "The broker has ended; try again.")
            }
        }
        return MartletAdministrator(
            host: address.reachableHost, port: address.port, administratorKey: key,
            projectID: project, options: options)
    }

    /// The place of the broker that serves the folder, for a device on this machine.
    /// - Parameter options: the encryption of the options counts if there is one.
    /// - Returns: nil if no broker serves the folder.
    func place(
        of options: DeviceOptions
    ) throws -> (host: String, port: Int, options: DeviceOptions)? {
        guard let address = ServedAddress(in: folder) else { return nil }
        var options = options
        if options.encryption == nil { options.encryption = try address.encryption }
        return (address.reachableHost, address.port, options)
    }

    private func read(_ name: String) -> String? {
        guard let file = try? EditedText(contentsOf: folder + "/" + name) else { return nil }
        var text = String(decoding: file.bytes, as: UTF8.self)
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}

extension ServedAddress {
    /// An address of this machine at which the broker listens.
    fileprivate var reachableHost: String {
        switch host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: host
        }
    }

    /// TLS that trusts the broker's certificate alone; nil: the port speaks plain text.
    fileprivate var encryption: Encryption? {
        get throws {
            try fingerprint.map {
                try ProgramParts.encryption(trusting: .certificate(sha256: $0))
            }
        }
    }
}

extension ClientOptions {
    /// Options for a single attempt, because a command without a broker must fail at once.
    static var once: ClientOptions {
        var options = ClientOptions()
        options.attemptsMax = 1
        return options
    }
}

/// The option for the data folder, on a command line.
struct FolderOptions: ParsableArguments {
    @Option(
        name: [.customLong("data"), .customLong("data-folder")], parsing: .unconditional,
        help: ArgumentHelp(
            "The data folder (default: MARTLET_DATA; else the one in the file of settings, "
                + "MARTLET_CONFIG or, for all commands but a broker, \(Settings.systemFile); "
                + "else \(DataFolderAccess.usualFolder)).", valueName: "dir"))
    var folder: String?

    var access: DataFolderAccess { get throws(Misuse) { try DataFolderAccess(option: folder) } }
}

/// The options for a project and its sender's connection, on a command line.
struct SenderOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: "The project.")
    var project: String

    @OptionGroup var connection: ConnectionOptions
}

/// The options of a command that asks as a project's sender, on a command line.
struct SenderScope: ParsableArguments {
    @OptionGroup var options: SenderOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    /// Asks as the project's sender.
    func ask<Answer>(
        _ ask: (any SenderInterface) async throws -> Answer
    ) async throws -> Answer {
        try await options.connection.ask(project: options.project, folder: folder.folder, ask)
    }

    /// Takes what comes, one after another, until Ctrl-C.
    /// - Parameters:
    ///   - count: how many are taken; nil for all.
    ///   - take: ends when `Countdown.step` says so.
    func take(
        _ count: Int?,
        _ take: @escaping @Sendable (any SenderInterface, Countdown) async throws -> Void
    ) async throws {
        let interrupt = Interrupt.prepare()
        let left = Countdown(from: count ?? .max)
        try await ask { sender in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await take(sender, left) }
                group.addTask { await interrupt.wait() }
                try await group.next()
                group.cancelAll()
            }
        }
    }
}

/// A command that asks as a project's sender.
protocol SenderCommand: ReportingCommand {
    var sender: SenderScope { get }
}

extension SenderCommand {
    var output: OutputOptions { sender.output }
}

/// The options for a sender's connection, on a command line.
struct ConnectionOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "A server key of the project (or MARTLET_KEY): ask the broker at --host and --port as a "
                + "sender. Without one, work as administrator of the data folder."))
    var key: String?

    @Option(parsing: .unconditional, help: "The broker's address, with a key.")
    var host = "127.0.0.1"

    @Option(parsing: .unconditional, help: "The broker's port, 1 to 65535, with a key.")
    var port = Limits.defaultPort

    @OptionGroup var tls: ClientTLSOptions

    /// Asks with a given key, else by a given folder, else by the environment.
    func ask<Answer>(
        project: String, folder: String?, _ ask: (any SenderInterface) async throws -> Answer
    ) async throws -> Answer {
        guard let sender = try sender(project: project, folder: folder) else {
            return try await DataFolderAccess(option: folder).sender(project: project, ask)
        }
        return try await closing(sender.close) { try await ask(sender) }
    }

    /// A sender with a server key, or with a client's certificate that stands for the sender. nil: the command works
    /// as administrator of the folder.
    func sender(project: String, folder: String?) throws -> MartletSender? {
        guard let key = credential(folder: folder) else { return nil }
        return MartletSender(
            host: host, port: port, projectID: project, serverKey: key,
            options: try tls.applied(to: .once))
    }

    /// Whether the command works as administrator of the folder.
    func isAdministrator(folder: String?) -> Bool { credential(folder: folder) == nil }

    /// The server key; empty: a client's certificate stands for the key.
    private func credential(folder: String?) -> String? {
        let environment = Settings.environment["MARTLET_KEY"]
        let certificate = tls.clientCertificate.map { _ in "" }
        return key ?? (folder == nil ? environment : nil) ?? certificate
    }

    mutating func validate() throws {
        guard (1...65_535).contains(port) else {
            throw ValidationError("--port takes a number from 1 to 65535.")
        }
    }
}

/// Asks, and then closes what was asked.
private func closing<Answer>(
    _ close: () async throws -> Void, _ ask: () async throws -> Answer
) async throws -> Answer {
    let answer: Answer
    do { answer = try await ask() } catch {
        try? await close()
        throw error
    }
    try await close()
    return answer
}
