// SPDX-License-Identifier: Apache-2.0
//
// Gives the program its cluster log: PostgreSQL, with rows packed by LZ4 (OPS-7). Rests on MartletPostgres.

import Martlet
import MartletCluster
import MartletCommand
import MartletPostgres
import MartletRows
import MartletStore

struct PostgresCluster: ClusterPart {
    /// Time for a command's calls of the log.
    private static let limit = Duration.seconds(10)

    private static func address(_ log: String) throws(MartletError) -> PostgresAddress {
        do throws(LogError) { return try PostgresAddress(log) } catch {
            throw MartletError(.invalidArgument, "\(error).", field: "cluster")
        }
    }

    func configuration(
        _ log: String, node: NodeName, address: NodeAddress
    ) throws(MartletError) -> ClusterConfiguration {
        let servers = try Self.address(log)
        return ClusterConfiguration(node: node, address: address, packing: LZ4Packing()) {
            report, use in
            PostgresLog(
                address: servers, node: report, purpose: use == .rows ? .rows : .lease)
        }
    }

    func make(_ log: String) throws(MartletError) -> LogIdentity {
        let servers = try Self.address(log)
        let identity = LogIdentity(
            incarnation: (0..<16).map { _ in UInt8.random(in: .min ... .max) },
            redoFormat: Int(Redo.format))
        do throws(LogError) {
            let connection = try PostgresLog.connect(
                to: servers, as: "martlet init", within: Self.limit)
            // A second folder on a log would make two beginnings of one history, also on a log without a row.
            try PostgresSchema().create(
                identity, on: connection, until: PostgresDeadline(after: Self.limit))
            return identity
        } catch {
            throw MartletError(.unavailable, "\(error).", field: "cluster")
        }
    }

    func connect(_ log: String) throws(MartletError) -> any ReplicationLog {
        connect(try Self.address(log))
    }

    private func connect(_ servers: PostgresAddress) -> any ReplicationLog {
        // A command is no node, and its readings leave a report without a place behind.
        PostgresLog(
            address: servers, node: .passing(formats: Int(Redo.format)...Int(Redo.format)),
            purpose: .lease)
    }
}
