// SPDX-License-Identifier: Apache-2.0
//
// Runs worlds. A seed decides everything: equal seeds make equal worlds, so a failure is replayed with its seed.
// Rests on World.

import Glibc

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
        }
        return Verdict(
            seed: seed, kind: plan.kind.rawValue, failures: world.oracle.failures,
            hash: world.trace.hash, deliveries: world.oracle.deliveryCount,
            messages: world.oracle.messages.count)
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

    private static func remove(_ folder: String) {
        for name in ["data.mdb", "lock.mdb", "martlet.lock"] { unlink(folder + "/" + name) }
        rmdir(folder)
    }
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
