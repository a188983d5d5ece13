// SPDX-License-Identifier: Apache-2.0
//
// Runs worlds. A seed decides everything: equal seeds make equal worlds, so a failure is replayed with its seed.
// Rests on World.

import Glibc
import Martlet
import MartletThreads

/// Runs simulated worlds.
package enum Simulation {
    /// The result of a world.
    package struct Verdict: Sendable {
        package var seed: UInt64
        package var kind: String
        /// Failures of the world, in the order of their discovery; empty for a sound world.
        package var failures: [String]
        /// Hash of all events; two runs of a seed have equal hashes.
        package var hash: UInt64
        package var deliveries: Int
        package var messages: Int
        /// OPS-7: takeovers in the world's cluster.
        package var takeovers = 0
    }

    /// Runs the world of a seed.
    /// - Parameters:
    ///   - canary: a fault to put in on purpose.
    ///   - hasKnown: whether the world may run into known deficiencies.
    ///   - tell: receives a line for each event.
    /// - Throws: `SimulationError`, or the store's error if the store cannot be opened.
    package static func run(
        seed: UInt64, canary: Canary? = nil, hasKnown: Bool = false,
        tell: ((String) -> Void)? = nil
    ) throws -> Verdict {
        let folder = try temporaryFolder()
        defer { remove(folder) }
        let plan = WorldPlan(seed: seed, hasKnown: hasKnown)
        let world = try World(seed: seed, plan: plan, folder: folder, canary: canary, tell: tell)
        defer { world.end() }
        world.populate()
        switch plan.kind {
        case .mixed: world.runMixed()
        case .projects: world.runProjects()
        case .fanouts: world.runFanouts()
        case .cluster: break
        }
        return verdict(seed, plan, world)
    }

    /// OPS-7: runs the world of a seed with three nodes.
    /// - Parameters:
    ///   - canary: a guard to give up on purpose.
    ///   - tell: receives a line for each event.
    /// - Throws: as `run`.
    package static func runCluster(
        seed: UInt64, canary: ClusterCanary? = nil, tell: ((String) -> Void)? = nil
    ) throws -> Verdict {
        let folder = try temporaryFolder()
        defer { remove(folder) }
        let plan = WorldPlan(clusterSeed: seed)
        let world = try World(seed: seed, plan: plan, folder: folder, canary: nil, tell: tell)
        defer { world.end() }
        world.populate()
        let core = HeldCore()
        defer { core.giveBack() }
        let agenda = Unchecked(world.agenda)
        let time = ThreadTime(
            nanoseconds: { UInt64(agenda.value.now) * 1000 }, pause: { _ in })
        try time.use { () throws in try world.runCluster(canary) }
        return verdict(seed, plan, world)
    }

    /// OPS-7: for how long no node was active, in microseconds, in a world with a slow log.
    package struct SlowLogFigures: Sendable {
        /// The longest pause of the first minute with the slow log.
        package var atChange: Int64 = 0
        /// The longest pause of the next minute.
        package var later: Int64 = 0
        /// The longest pause of the last minute, which begins with the end of the active node.
        package var afterKill: Int64 = 0
        package var takeovers = 0
        package var failures: [String] = []
    }

    /// OPS-7: runs a cluster with a slow log, without other troubles.
    /// - Parameters:
    ///   - commit: time of a commit, in milliseconds.
    ///   - tell: receives a line for each event.
    /// - Throws: as `run`.
    package static func runSlowLog(
        seed: UInt64, commit: Int64, tell: ((String) -> Void)? = nil
    ) throws -> SlowLogFigures {
        let folder = try temporaryFolder()
        defer { remove(folder) }
        let plan = WorldPlan(slowLogSeed: seed)
        let world = try World(seed: seed, plan: plan, folder: folder, canary: nil, tell: tell)
        defer { world.end() }
        world.populate()
        let agenda = Unchecked(world.agenda)
        let time = ThreadTime(
            nanoseconds: { UInt64(agenda.value.now) * 1000 }, pause: { _ in })
        var figures = try time.use { () throws in try world.runSlowLog(commit: commit * 1000) }
        figures.failures = world.oracle.failures
        return figures
    }

    private static func verdict(_ seed: UInt64, _ plan: WorldPlan, _ world: World) -> Verdict {
        Verdict(
            seed: seed, kind: plan.kind.rawValue, failures: world.oracle.failures,
            hash: world.trace.hash, deliveries: world.oracle.deliveryCount,
            messages: world.oracle.messages.count,
            takeovers: world.cluster?.observer.takeoverCount ?? 0)
    }

    /// Makes a temporary folder, in memory if the system has `/dev/shm`.
    private static func temporaryFolder() throws -> String {
        for parent in ["/dev/shm", "/tmp"] {
            var template = Array((parent + "/martlet-sim-XXXXXX").utf8CString)
            guard mkdtemp(&template) != nil else { continue }
            let path = template.dropLast().map { UInt8(bitPattern: $0) }
            return String(decoding: path, as: UTF8.self)
        }
        throw SimulationError.noFolder(String(cString: strerror(errno)))
    }

    private static func remove(_ folder: String) { FolderCopies.remove(folder) }
}

/// The reason for which a world cannot be made.
package enum SimulationError: Error, CustomStringConvertible {
    case noFolder(String)

    package var description: String {
        switch self {
        case .noFolder(let text): "No temporary folder for the store can be made: \(text)."
        }
    }
}
