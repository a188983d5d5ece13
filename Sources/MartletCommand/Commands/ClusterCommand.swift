// SPDX-License-Identifier: Apache-2.0
//
// `martlet cluster`: begins a cluster, shows its state, adds a node, and removes one (OPS-7). Rests on ClusterPart and
// MartletStore.

import ArgumentParser
import Glibc
import Martlet
import MartletAnswers
import MartletCluster
import MartletRows
import MartletStore

struct ClusterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Make a cluster of brokers, and look after it.",
        discussion: """
            A cluster has a full copy of the data folder on each node, and a log in PostgreSQL. Each \
            node is served by `martlet serve --cluster`. The article Cluster has the steps.
            """,
        subcommands: [
            ClusterInitCommand.self, ClusterStatusCommand.self, ClusterJoinCommand.self,
            ClusterHandoverCommand.self, ClusterDrainCommand.self, ClusterVerifyCommand.self,
            ClusterRemoveCommand.self, ClusterRebaseCommand.self,
        ])
}

/// The log of a cluster.
struct ClusterLogOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The cluster's log: a connection URI of PostgreSQL.", valueName: "uri"))
    var cluster: String
}

extension ClusterLogOptions {
    /// Time for a call of the log by a command.
    static let patience = Duration.seconds(10)

    /// A connection to the log.
    func connect() throws(MartletError) -> any ReplicationLog {
        try ProgramParts.requiredCluster().connect(cluster)
    }

    static func look<Answer>(
        _ log: any ReplicationLog, _ body: (any ReplicationLog) throws(LogError) -> Answer
    ) throws(MartletError) -> Answer {
        do throws(LogError) { return try body(log) } catch {
            throw MartletError(.unavailable, "\(error).", field: "cluster")
        }
    }

    /// What is wrong with the log's servers.
    static func warnings(_ log: any ReplicationLog) throws(MartletError) -> [String] {
        try look(log) { (log) throws(LogError) in try log.warnings(within: patience) }
    }

    /// The reports of the nodes, without those of commands.
    static func nodes(_ log: any ReplicationLog) throws(MartletError) -> [NodeSighting] {
        try look(log) { (log) throws(LogError) in
            try log.nodes(within: patience)
                .filter { $0.report.name.text != NodeReport.passingName }
        }
    }
}

/// Writes the beginning of a log into a data folder that no broker serves.
/// - Parameter mayLackRows: whether messages after the folder's last row may be lost. Devices know their numbers.
private func begin(
    _ folder: String, _ identity: LogIdentity, mayLackRows: Bool = false
) throws {
    let store = try Store(StoreConfiguration(folder: folder))
    defer { store.close() }
    try store.leaveLog()
    if mayLackRows, let project = try store.leaveOutSequences() {
        throw MartletError(
            .unavailable,
            "The last message of project '\(project)' has no number that a store gives.",
            field: "data")
    }
    try store.begin(at: LogPosition(beginningOf: identity.incarnation))
    try store.checkpoint()
}

/// The place of a data folder; nil: the folder belongs to no cluster.
private func position(of folder: String) throws -> LogPosition? {
    let store = try Store(StoreConfiguration(folder: folder))
    defer { store.close() }
    return try store.logPosition()
}

struct ClusterInitCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Begin a cluster with a data folder.",
        discussion: """
            The database needs an empty schema. The folder is the beginning of all nodes: copy it to \
            them before one of them serves, or let them join later with `martlet cluster join`.
            """)

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let part = try ProgramParts.requiredCluster()
        let folder = try folder.access.folder
        let isThere = access(folder + "/data.mdb", F_OK) == 0
        guard try !isThere || position(of: folder) == nil else {
            throw MartletError(
                .alreadyExists,
                """
                The data folder belongs to a cluster already. If its log is lost, 'martlet cluster \
                rebase' begins another.
                """, field: "data")
        }
        // The keys of the folder are those of all nodes, so they are made before the folder is copied.
        let broker = try await Broker.open(BrokerConfiguration(folder: folder))
        _ = try broker.webPushSecret()
        try await broker.close()
        try begin(folder, try part.make(log.cluster))
        // The cluster has begun, whatever comes of the look.
        let warnings = (try? ClusterLogOptions.warnings(try log.connect())) ?? []
        for warning in warnings { Terminal.printError("warning: \(warning).") }
        output.json
            ? JSON.print(["data": folder])
            : Terminal.print(
                "The cluster begins with \(folder). Copy it to the other nodes, and serve each with "
                    + "'martlet serve --cluster'.")
    }
}

struct ClusterRebaseCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebase",
        abstract: "Begin a new log with the folder of a node, because the log is lost.",
        discussion: """
            Take the node that was active last, or the node with the highest row. The database needs an \
            empty schema. The other nodes must join again with `martlet cluster join`. Messages that \
            were accepted after the folder's last row are lost.
            """)

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let part = try ProgramParts.requiredCluster()
        let folder = try folder.access.existingFolder()
        guard let before = try position(of: folder) else {
            throw MartletError(
                .invalidArgument, "The data folder belongs to no cluster; use 'init'.",
                field: "data")
        }
        try begin(folder, try part.make(log.cluster), mayLackRows: true)
        output.json
            ? JSON.print(["data": folder])
            : Terminal.print(
                "The cluster begins anew with \(folder), which stood at row \(before.row) of epoch "
                    + "\(before.epoch). The other nodes join again.")
    }
}

struct ClusterVerifyCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Show the place of data folders in the log, and a digest of their contents.",
        discussion: """
            Folders at the same row must have the same digest; with two folders or more, the command \
            ends with 1 if they have not. A folder is read beside its broker. On several machines, run \
            it on each and compare: folders of an idle cluster are at the same row.
            """)

    @Argument(help: ArgumentHelp("Data folders.", valueName: "folder"))
    var folders: [String]

    @OptionGroup var output: OutputOptions

    private struct Verified: Encodable {
        var folder: String
        var epoch: UInt32
        var row: UInt64
        var chain: String
        var digest: String
    }

    func perform() async throws {
        var all: [Verified] = []
        var faults: [String] = []
        for folder in folders {
            do { all.append(try Self.verified(folder)) } catch {
                // The other folders are told too: their rows are needed when a folder is damaged.
                faults.append(
                    (error as? MartletError)?.message ?? "'\(folder)' cannot be read: \(error)")
            }
        }
        if output.json {
            JSON.print(all)
        } else {
            for one in all {
                Terminal.print("\(one.folder)  row \(one.row), digest \(one.digest.prefix(32))")
            }
        }
        if let fault = faults.first {
            for further in faults.dropFirst() { Terminal.printError(further) }
            throw MartletError(.unavailable, fault, field: "folder")
        }
        for one in all {
            let other = all.first { $0.row == one.row && $0.digest != one.digest }
            guard let other else { continue }
            throw MartletError(
                .internal,
                """
                '\(one.folder)' and '\(other.folder)' are at row \(one.row) and have not the same \
                contents. Stop both, and let the one that is wrong join again.
                """)
        }
    }

    private static func verified(_ folder: String) throws -> Verified {
        do {
            let store = try Store.forReading(folder)
            defer { store.close() }
            let (position, digest) = try store.contentsDigest()
            guard let position else {
                throw MartletError(
                    .invalidArgument, "'\(folder)' belongs to no cluster.", field: "folder")
            }
            return Verified(
                folder: folder, epoch: position.epoch, row: position.row,
                chain: hex(position.chain), digest: hex(digest))
        } catch let error as StorageError {
            throw MartletError(.unavailable, "'\(folder)' cannot be read: \(error).")
        }
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}

struct ClusterRemoveCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Forget a node for good, so that the log keeps no rows for it.",
        discussion: "A node that serves again is a node of the cluster again.")

    @Argument(help: "The name of the node.")
    var node: String

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let name = try NodeName(validating: node)
        let connection = try log.connect()
        let sighting = try ClusterLogOptions.nodes(connection).first { $0.report.name == name }
        guard let sighting else {
            throw MartletError(.notFound, "The cluster has no node '\(node)'.", field: "node")
        }
        guard sighting.report.hasEnded || sighting.age >= ClusterLimits.away else {
            throw MartletError(
                .invalidArgument, "Node '\(node)' gives signs of life; stop it first.",
                field: "node")
        }
        try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.remove(name, within: ClusterLogOptions.patience)
            try log.withdraw(
                NodeWish(node: name, kind: .drain), within: ClusterLogOptions.patience)
        }
        output.json ? JSON.print(["removed": node]) : Terminal.print("Removed \(node).")
    }
}

struct ClusterStatusCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the nodes of a cluster, and its log.")

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var output: OutputOptions

    private struct Node: Encodable {
        var node: String
        var role: String
        var address: String
        var applied: UInt64
        /// Rows of a moment before the report that the node lacks. A node that is level has 0, however many rows come.
        var behind: UInt64
        /// Rows of the node that the log has not. More than 0 for longer than a second: the log has lost rows, or is that
        /// of a former primary.
        var ahead: UInt64
        var seenSeconds: Double
        /// What the operator has asked of the node.
        var asked: [String]
    }

    private struct Status: Encodable {
        var epoch: UInt32
        var row: UInt64
        var leaseSeconds: Double
        /// Bytes of the log on its server.
        var logBytes: UInt64?
        /// What is wrong with the log's servers.
        var warnings: [String]
        var nodes: [Node]
    }

    func perform() async throws {
        let connection = try log.connect()
        let (before, wishes, bytes) = try ClusterLogOptions.look(connection) {
            (log) throws(LogError) in
            let patience = ClusterLogOptions.patience
            return (
                try log.tail(within: patience), try log.wishes(within: patience),
                try log.byteCount(within: patience)
            )
        }
        let warnings = try ClusterLogOptions.warnings(connection)
        let sightings = try await Self.sightings(connection)
        let (lease, tail) = try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            (
                try log.lease(within: ClusterLogOptions.patience),
                try log.tail(within: ClusterLogOptions.patience)
            )
        }
        let places = PlaceLook(before: before.row, after: tail.row)
        let nodes = sightings.map { sighting in
            let report = sighting.report
            let isActive = lease.holder == report.name && !lease.isOver
            let isSilent = sighting.age > ClusterLimits.silence
            return Node(
                node: report.name.text,
                role: isActive
                    ? "active" : report.hasEnded ? "stopped" : isSilent ? "silent" : "follows",
                address: report.address, applied: report.applied,
                behind: places.behind(report), ahead: places.ahead(report),
                seenSeconds: sighting.age / .seconds(1),
                asked: wishes.filter { $0.node == report.name }.map { wish in
                    switch wish.kind {
                    case .drain: "drain"
                    case .handOver(let successor): "handover to \(successor)"
                    }
                })
        }
        let status = Status(
            epoch: lease.epoch, row: tail.row, leaseSeconds: lease.remaining / .seconds(1),
            logBytes: bytes, warnings: warnings, nodes: nodes)
        guard !output.json else { return JSON.print(status) }
        for warning in warnings { Terminal.print("warning: \(warning)") }
        Terminal.print(
            "epoch \(status.epoch), row \(status.row), lease "
                + (lease.isOver ? "over" : "for \(Self.seconds(status.leaseSeconds)) s")
                + (bytes.map { ", log of \($0 >> 20) MiB" } ?? ""))
        for node in nodes {
            Terminal.print(
                "\(node.node)  \(node.role)  \(node.address.isEmpty ? "-" : node.address)  "
                    + "row \(node.applied), "
                    + (node.ahead > 0
                        ? "\(node.ahead) ahead of the log, " : "\(node.behind) behind, ")
                    + "seen \(Self.seconds(node.seenSeconds)) s ago"
                    + node.asked.map { ", asked: \($0)" }.joined())
        }
    }

    /// The reports of the nodes, as soon as each living node has reported again.
    private static func sightings(
        _ connection: any ReplicationLog
    ) async throws -> [NodeSighting] {
        let began = ContinuousClock.now
        while true {
            let elapsed = ContinuousClock.now - began
            let sightings = try ClusterLogOptions.nodes(connection)
            guard sightings.contains(where: { PlaceLook.awaits($0, after: elapsed) }) else {
                return sightings
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private static func seconds(_ value: Double) -> String {
        "\((value * 10).rounded() / 10)"
    }
}
