// SPDX-License-Identifier: Apache-2.0
//
// Runs worlds. A seed is everything: the same one makes the same world, and a failure is replayed with
// it. Rests on World.

import Glibc

/// Runs simulated worlds.
package enum Simulation {
    /// What came of one world.
    package struct Verdict: Sendable {
        package var seed: UInt64
        package var kind: String
        /// What was wrong, the first first; empty if nothing.
        package var failures: [String]
        /// Of everything that happened.
        package var hash: UInt64
        package var deliveries: Int
        package var messages: Int
    }

    /// - Parameters:
    ///   - canary: what is broken on purpose.
    ///   - hasKnown: also with what is known not to be as it should.
    ///   - tell: told what happens, line by line.
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

    /// In memory where the system has such a folder.
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

/// Why no world can be made.
package enum SimulationError: Error, CustomStringConvertible {
    case noFolder(String)

    package var description: String {
        switch self {
        case .noFolder(let text): "No temporary folder for the store can be made: \(text)."
        }
    }
}
