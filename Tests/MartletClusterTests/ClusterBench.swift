// SPDX-License-Identifier: Apache-2.0
//
// A cluster of brokers on a real PostgreSQL: data folders, brokers in this process, and a comparison of their stores.

import Foundation
import Logging
import Martlet
import MartletBase
import MartletClient
import MartletCluster
import MartletPostgres
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

/// The nodes of a cluster.
final class ClusterBench: @unchecked Sendable {
    static let project = "tides"

    private let pair: PostgresPair
    let database: String
    let folder: String
    let names = ["a", "b", "c"]
    /// The limits of all nodes.
    var limits = BrokerLimits()
    /// The ceiling on deliveries of the whole cluster; 0: none.
    var deliveriesPerSecond = 0
    private let nodePorts: [UInt16]
    private var brokers: [String: Broker] = [:]
    /// Between the log's acceptance of a row and the commit in the active node's store.
    let pause = AnswerPause()
    let faults = LogFaults()

    /// Makes the log and the folders. No broker runs yet.
    init(_ pair: PostgresPair) throws {
        self.pair = pair
        database = try pair.makeDatabase()
        folder = NSTemporaryDirectory() + "martlet-cluster-\(UInt64.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        nodePorts = try names.map { _ in try FreePort.claim() }
    }

    // A node that a failed test has left running ends the process when its store is gone, and the failure is not told.
    deinit {
        if brokers.isEmpty { try? FileManager.default.removeItem(atPath: folder) }
    }

    func path(_ node: String) -> String { folder + "/" + node }

    /// Begins the log with a new folder, and copies the folder for each node.
    func begin() async throws {
        let identity = LogIdentity(
            incarnation: (0..<16).map { _ in UInt8.random(in: .min ... .max) }, redoFormat: 1)
        try PostgresSchema().create(
            identity,
            on: try PostgresLog.connect(
                to: try pair.address(database), as: "martlet init", within: .ample),
            until: PostgresDeadline(after: .ample))
        try FileManager.default.createDirectory(
            atPath: path("a"), withIntermediateDirectories: false)
        try await Broker.open(BrokerConfiguration(folder: path("a"))).close()
        let store = try Store(StoreConfiguration(folder: path("a")))
        try store.begin(at: LogPosition(beginningOf: identity.incarnation))
        store.close()
        for name in names.dropFirst() {
            try FileManager.default.copyItem(atPath: path("a"), toPath: path(name))
        }
    }

    /// Copies the folder of a node that does not run.
    func copy(_ node: String, to other: String) throws {
        try FileManager.default.copyItem(atPath: path(node), toPath: path(other))
    }

    /// - Parameter name: the name of the node; nil: the name of the folder.
    func configuration(
        _ folder: String, as name: String? = nil
    ) throws -> BrokerConfiguration {
        let node = name ?? folder
        var configuration = BrokerConfiguration(folder: path(folder), address: .init(port: 0))
        configuration.loopCount = 1
        configuration.limits = limits
        configuration.deliveriesPerSecond = deliveriesPerSecond
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        configuration.reconnectDelayMilliseconds = 100
        let servers = try pair.address(database)
        configuration.cluster = ClusterConfiguration(
            node: try NodeName(validating: node),
            // A twin of a node has an address of its own.
            address: NodeAddress(
                host: "127.0.0.1",
                port: folder == node
                    ? nodePorts[names.firstIndex(of: node)!] : try FreePort.claim()),
            packing: LZ4Packing()
        ) { [pause, faults] report, use in
            SlowLog(
                PostgresLog(
                    address: servers, node: report, purpose: use == .rows ? .rows : .lease), pause,
                faults, of: node)
        }
        return configuration
    }

    @discardableResult
    func start(_ node: String) async throws -> Broker {
        let broker = try await Broker.open(try configuration(node))
        brokers[node] = broker
        return broker
    }

    func broker(_ node: String) -> Broker { brokers[node]! }
    func port(_ node: String) -> Int { Int(brokers[node]!.port!) }

    /// The port at which a node listens for other nodes.
    func nodePort(_ node: String) -> UInt16 { nodePorts[names.firstIndex(of: node)!] }

    func stop(_ node: String) async throws { try await brokers.removeValue(forKey: node)?.close() }

    func end() async throws { for name in names { try await stop(name) } }

    func log() throws -> PostgresLog {
        PostgresLog(
            address: try pair.address(database), node: LogBench.report(.a), purpose: .lease)
    }

    /// Waits until a node is active.
    /// - Returns: the name of the node.
    func active() async throws -> String {
        let log = try log()
        let patience = Patience("no node is active")
        while true {
            let lease = try log.lease(within: .ample)
            if let holder = lease.holder?.text, !lease.isOver, brokers[holder] != nil {
                return holder
            }
            try patience.wait()
        }
    }

    /// A node that follows.
    func followers() async throws -> [String] {
        let active = try await active()
        return names.filter { $0 != active && brokers[$0] != nil }
    }

    /// Waits until the stores of two running nodes have equal contents. The place in the log is among the contents.
    func waitUntilEqual(_ one: String, _ other: String) throws {
        let patience = Patience("the stores of \(one) and \(other) are not equal")
        while let difference = try difference(one, other) {
            do { try patience.wait() } catch {
                throw PostgresPrograms.Failure(description: "\(error): \(difference)")
            }
        }
    }

    /// The first row that the stores of two running nodes have not in common; nil: the stores are equal.
    private func difference(_ one: String, _ other: String) throws -> String? {
        let (first, second) = (broker(one).store, broker(other).store)
        // No key is below, because LMDB has no empty keys.
        let lowest = Key(bytes: [0])
        return try first.read { (left) throws -> String? in
            try second.read { (right) throws -> String? in
                for table in Table.allCases {
                    let leftRows = try Cursor(left.raw, table)
                    let rightRows = try Cursor(right.raw, table)
                    var (row, otherRow) = (
                        try leftRows.seek(lowest), try rightRows.seek(lowest)
                    )
                    while row != nil || otherRow != nil {
                        guard let mine = row, let theirs = otherRow,
                            mine.key.bytes.elementsEqual(theirs.key.bytes),
                            mine.value.elementsEqual(theirs.value)
                        else {
                            return "\(table): \(Self.text(row)) and \(Self.text(otherRow))"
                        }
                        (row, otherRow) = (try leftRows.next(), try rightRows.next())
                    }
                }
                return nil
            }
        }
    }

    private static func text(_ row: RowEntry?) -> String {
        row.map { "\(Array($0.key.bytes)): \(Array($0.value))" } ?? "nothing"
    }
}
