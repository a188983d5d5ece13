// SPDX-License-Identifier: Apache-2.0
//
// Weeks of the same load under a simulated clock: what is acknowledged, replaced or expired gives its
// pages back, so that the store does not grow. Most devices come once a day, a tenth once in five, some
// never. Rests on Fleet.

import Glibc
import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletStore

enum SteadyLoad {
    static let instances = 10_000
    static let weeks = 4
    /// In an hour of the simulated clock.
    static let directPerHour = 200
    static let fanoutsPerHour = 2

    static func measure(folder: String) throws {
        let store = try Store(
            StoreConfiguration(folder: folder, mapBytes: 4 << 30, durability: .os))
        let fleet = try Fleet(store, instances: instances)
        for first in stride(from: 0, to: instances, by: 1000) {
            _ = try store.write { (transaction) throws(StorageError) in
                var engine = Engine()
                return try engine.apply(
                    .changeTopic(
                        project: fleet.project, topic: "news", change: .subscribe,
                        tokens: fleet.tokens[first..<first + 1000].map(\.text)),
                    now: fleet.now, in: transaction)
            }
        }
        var engine = Engine()
        var random = Random(state: 0x9E37_79B9_7F4A_7C15)
        var now = fleet.now
        let began = nanoseconds()
        for week in 1...weeks {
            for hour in 0..<7 * 24 {
                now = now.advanced(bySeconds: 3600)
                let commands =
                    sends(fleet, &random)
                    + [.acknowledge(try visits(store, fleet, week * 168 + hour, now))]
                try apply(commands, store, &engine, now)
            }
            let project = try store.read { transaction throws in
                try transaction.projects.project(fleet.project)!
            }
            report([
                "kind": "steady load", "week": week, "instances": instances,
                "messages": project.lastSequence.rawValue, "bytesUsed": store.size.used,
                "pages": store.size.used / 4096,
                "seconds": Double(nanoseconds() - began) / 1e9,
            ])
        }
        store.close()
    }

    static func sends(_ fleet: Fleet, _ random: inout Random) -> [Command] {
        let body = [UInt8](repeating: 0x78, count: 140)
        var commands: [Command] = []
        for number in 0..<directPerHour {
            let token = fleet.tokens[Int(random.next() % UInt64(instances))]
            commands.append(
                .send(
                    project: fleet.project,
                    message: SendCommand(
                        target: .token(token.text), body: body, lifespan: .seconds(2 * 86_400),
                        collapse: number % 4 == 0 ? .named("score") : .none)))
        }
        for number in 0..<fanoutsPerHour {
            commands.append(
                .send(
                    project: fleet.project,
                    message: SendCommand(
                        target: .topic("news"), body: body, lifespan: .seconds(3 * 86_400),
                        collapse: number == 0 ? .app : .none)))
        }
        return commands
    }

    /// Who comes in this hour, takes everything and leaves.
    static func visits(
        _ store: Store, _ fleet: Fleet, _ hour: Int, _ now: Instant
    ) throws -> [Acknowledgement] {
        let last = try store.read { transaction throws in
            try transaction.projects.project(fleet.project)!.lastSequence
        }
        return stride(from: hour % 24, to: instances, by: 24).compactMap { index in
            switch index % 100 {
            case 0..<2: return nil
            case 2..<12 where hour / 24 % 5 != index % 5: return nil
            default:
                return Acknowledgement(
                    project: fleet.project, ordinal: Universe.ordinal(index),
                    through: LaneMarks(last),
                    departure: Acknowledgement.Departure(
                        connectionNumber: 0, position: last,
                        throttleFull: Instant(millisecondsSince1970: 0), seen: now))
            }
        }
    }

    /// As the committer does: what is due first, then what is asked for.
    static func apply(
        _ commands: [Command], _ store: Store, _ engine: inout Engine, _ now: Instant
    ) throws {
        var hasMore = true
        while hasMore {
            hasMore = try store.write { (transaction) throws(StorageError) in
                try engine.advance(now: now, in: transaction).hasMore
            }
            engine.committed()
        }
        try store.write { (transaction) throws(StorageError) in
            for command in commands {
                _ = try engine.apply(command, now: now, in: transaction)
            }
        }
        engine.committed()
    }
}
