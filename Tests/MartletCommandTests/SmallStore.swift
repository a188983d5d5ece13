// SPDX-License-Identifier: Apache-2.0
//
// A data folder that a real broker fills, and the bytes of the folder's rows. The length of data.mdb tells little of a
// small store, because the pages of up to 2000 transactions are kept for a crash. So the pages of all trees are
// counted. Rests on Martlet and LMDB.

import CLMDB
import Foundation
import Martlet

/// What a broker is given to store.
struct SmallStore {
    var instances = 0
    var topicsPerInstance = 0
    /// Topics of the project; each instance has neighbouring ones of them, from a random one on.
    var topics = 100
    /// Messages that wait, each for `recipients` instances: 1, or a topic of so many.
    var messages = 0
    var recipients = 1
    var bytesPerMessage = 0

    private static let project = "sizes"
    private static let batch = 1000

    struct Failure: Error {
        var code: Int32
    }

    /// Fills a folder, and counts the bytes of its pages.
    func contentBytes() async throws -> Int {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "martlet-sizes-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try await fill(folder.path)
        return try Self.pages(of: folder.path + "/data.mdb")
    }

    private func fill(_ folder: String) async throws {
        var configuration = BrokerConfiguration(folder: folder)
        configuration.limits = .none
        let broker = try await Broker.open(configuration)
        _ = try await broker.createProject(Self.project)
        var tokens: [String] = []
        for start in stride(from: 0, to: instances, by: Self.batch) {
            tokens += try await withThrowingTaskGroup(of: String.self) { group in
                for _ in start..<min(start + Self.batch, instances) {
                    group.addTask {
                        try await broker.register(
                            app: "com.example.tides", platform: .android, in: Self.project
                        ).token
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
        }
        var random = SystemRandomNumberGenerator()
        var subscribers: [Int: [String]] = [:]
        for token in tokens where topicsPerInstance > 0 {
            let first = Int.random(in: 0..<topics, using: &random)
            for place in 0..<topicsPerInstance {
                subscribers[(first + place) % topics, default: []].append(token)
            }
        }
        try await subscribe(subscribers.map { ("topic-\($0.key)", $0.value) }, broker)
        if recipients > 1 {
            try await subscribe([("many", Array(tokens.shuffled().prefix(recipients)))], broker)
        }
        try await send(tokens, broker)
        try await broker.close()
    }

    private func subscribe(_ topics: [(String, [String])], _ broker: Broker) async throws {
        for start in stride(from: 0, to: topics.count, by: Self.batch) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (topic, tokens) in topics[start..<min(start + Self.batch, topics.count)] {
                    group.addTask {
                        for start in stride(from: 0, to: tokens.count, by: Self.batch) {
                            _ = try await broker.subscribe(
                                Array(tokens[start..<min(start + Self.batch, tokens.count)]),
                                to: topic, in: Self.project)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    private func send(_ tokens: [String], _ broker: Broker) async throws {
        let body = String(repeating: "x", count: max(bytesPerMessage - 1, 0))
        for start in stride(from: 0, to: messages, by: Self.batch) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in start..<min(start + Self.batch, messages) {
                    let target: MessageTarget =
                        recipients > 1
                        ? .topic("many") : .token(tokens[number * 7919 % tokens.count])
                    group.addTask {
                        _ = try await broker.send(
                            OutgoingMessage(to: target, Message(data: ["n": body])),
                            in: Self.project)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    /// Bytes of the pages of all trees in an LMDB file that no process has open.
    static func pages(of path: String) throws -> Int {
        func check(_ code: Int32) throws {
            if code != 0 { throw Failure(code: code) }
        }
        var environment: OpaquePointer?
        try check(mdb_env_create(&environment))
        defer { mdb_env_close(environment) }
        try check(mdb_env_set_maxdbs(environment, 64))
        try check(
            mdb_env_open(
                environment, path, UInt32(MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR), 0o600))
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction))
        defer { mdb_txn_abort(transaction) }
        var main: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, nil, 0, &main))
        var status = MDB_stat()
        func count(_ tree: MDB_dbi) throws -> Int {
            try check(mdb_stat(transaction, tree, &status))
            return (status.ms_branch_pages + status.ms_leaf_pages + status.ms_overflow_pages)
                * Int(status.ms_psize)
        }
        var bytes = try count(main)
        var cursor: OpaquePointer?
        try check(mdb_cursor_open(transaction, main, &cursor))
        defer { mdb_cursor_close(cursor) }
        var (key, value) = (MDB_val(), MDB_val())
        while mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 {
            let name = String(
                decoding: UnsafeRawBufferPointer(start: key.mv_data, count: key.mv_size),
                as: UTF8.self)
            var tree: MDB_dbi = 0
            try check(mdb_dbi_open(transaction, name, 0, &tree))
            bytes += try count(tree)
        }
        return bytes
    }
}
