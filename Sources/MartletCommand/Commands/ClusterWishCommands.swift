// SPDX-License-Identifier: Apache-2.0
//
// `martlet cluster handover` and `drain`: write a wish into the log, where the nodes read it (OPS-7). Rests on
// ClusterLogOptions.

import ArgumentParser
import Martlet
import MartletAnswers
import MartletCluster

struct ClusterHandoverCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "handover",
        abstract: "Hand the active role to another node.",
        discussion: """
            The successor has all rows of the log before it begins. Requests wait for a moment meanwhile, \
            and none is refused. The command returns when the successor is active.
            """)

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The node that is to be active (default: the follower with the most rows).",
            valueName: "node"))
    var to: String?

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var output: OutputOptions

    /// Time for the handover: the node reads wishes once a second, and waits for a successor that is behind.
    private static let patience = Duration.seconds(15)

    private struct HandedOver: Encodable {
        var from: String
        var to: String
        var epoch: UInt32
    }

    func perform() async throws {
        let wanted = try to.map { (text) throws(MartletError) in try NodeName(validating: text) }
        let connection = try log.connect()
        let lease = try lease(connection)
        guard let holder = lease.holder, !lease.isOver else {
            throw MartletError(
                .unavailable, "No node is active now, so no role can be handed over.",
                field: "cluster")
        }
        let successor = try successor(of: holder, wanted, connection)
        let wish = NodeWish(node: holder, kind: .handOver(to: successor))
        try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.ask(wish, within: ClusterLogOptions.patience)
        }
        let end = ContinuousClock.now + Self.patience
        while true {
            let now = try self.lease(connection)
            if now.epoch != lease.epoch, let active = now.holder {
                return try tell(from: holder, active, wanted: successor, now.epoch)
            }
            guard ContinuousClock.now < end else { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.withdraw(wish, within: ClusterLogOptions.patience)
        }
        throw MartletError(
            .unavailable,
            """
            Node '\(successor)' has not taken over from '\(holder)' in time: it may be behind, or one \
            of the two may be of a version without handovers. The wish is withdrawn.
            """, field: "to")
    }

    private func lease(_ connection: any ReplicationLog) throws(MartletError) -> Lease {
        try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.lease(within: ClusterLogOptions.patience)
        }
    }

    private func successor(
        of holder: NodeName, _ wanted: NodeName?, _ connection: any ReplicationLog
    ) throws(MartletError) -> NodeName {
        let nodes = try ClusterLogOptions.nodes(connection)
        let drained = try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.wishes(within: ClusterLogOptions.patience)
        }.filter { $0.kind == .drain }.map(\.node)
        let ready = nodes.filter {
            $0.report.name != holder && !$0.report.hasEnded && $0.age < ClusterLimits.away
        }
        guard let wanted else {
            let best = ready.filter { !drained.contains($0.report.name) }
                .max { $0.report.applied < $1.report.applied }
            guard let best else {
                throw MartletError(
                    .unavailable, "No follower can take the active role over from '\(holder)'.",
                    field: "to")
            }
            return best.report.name
        }
        guard wanted != holder else {
            throw MartletError(.invalidArgument, "Node '\(wanted)' is active.", field: "to")
        }
        guard nodes.contains(where: { $0.report.name == wanted }) else {
            throw MartletError(.notFound, "The cluster has no node '\(wanted)'.", field: "to")
        }
        guard !drained.contains(wanted) else {
            throw MartletError(
                .invalidArgument,
                "Node '\(wanted)' is drained; 'martlet cluster drain \(wanted) --undo' comes first.",
                field: "to")
        }
        guard ready.contains(where: { $0.report.name == wanted }) else {
            throw MartletError(
                .unavailable, "Node '\(wanted)' gives no sign of life, so it cannot take over.",
                field: "to")
        }
        return wanted
    }

    private func tell(
        from holder: NodeName, _ active: NodeName, wanted: NodeName, _ epoch: UInt32
    ) throws(MartletError) {
        guard active == wanted else {
            throw MartletError(
                .unavailable, "Node '\(active)' has taken over, and not '\(wanted)'.", field: "to")
        }
        output.json
            ? JSON.print(HandedOver(from: holder.text, to: active.text, epoch: epoch))
            : Terminal.print("Node \(active) is active now, after \(holder).")
    }
}

struct ClusterDrainCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Send the clients of a node to other nodes.",
        discussion: """
            The node tells its devices and senders to go, hands the active role over, and goes on \
            following. It takes no clients until it is undrained, or its process starts again, and its \
            health check fails meanwhile, so that balancers choose other nodes.
            """)

    @Argument(help: "The name of the node.")
    var node: String

    @Flag(help: "Let the node take clients again.")
    var undo = false

    @OptionGroup var log: ClusterLogOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let name = try NodeName(validating: node)
        let connection = try log.connect()
        let nodes = try ClusterLogOptions.nodes(connection)
        guard nodes.contains(where: { $0.report.name == name }) else {
            throw MartletError(.notFound, "The cluster has no node '\(node)'.", field: "node")
        }
        if !undo { try requireAnother(than: name, nodes, connection) }
        let wish = NodeWish(node: name, kind: .drain)
        try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            if undo {
                try log.withdraw(wish, within: ClusterLogOptions.patience)
            } else {
                try log.ask(wish, within: ClusterLogOptions.patience)
            }
        }
        output.json
            ? JSON.print([undo ? "undrained" : "drained": node])
            : Terminal.print(
                undo
                    ? "Node \(node) takes clients again, within some seconds."
                    : "Node \(node) sends its clients to other nodes, within some seconds.")
    }

    /// Checks that another node takes the clients.
    private func requireAnother(
        than name: NodeName, _ nodes: [NodeSighting], _ connection: any ReplicationLog
    ) throws(MartletError) {
        let drained = try ClusterLogOptions.look(connection) { (log) throws(LogError) in
            try log.wishes(within: ClusterLogOptions.patience)
        }.filter { $0.kind == .drain }.map(\.node)
        let others = nodes.filter {
            $0.report.name != name && !$0.report.hasEnded && $0.age < ClusterLimits.away
                && !drained.contains($0.report.name)
        }
        guard others.isEmpty else { return }
        throw MartletError(
            .invalidArgument, "No other node takes clients, so '\(name)' cannot be drained.",
            field: "node")
    }
}
