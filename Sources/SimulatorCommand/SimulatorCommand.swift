// SPDX-License-Identifier: Apache-2.0
//
// martlet-sim: runs simulated worlds, many on all cores, or a single world told line by line. Rests on
// MartletSimulator.

import ArgumentParser
import Dispatch
import Glibc
import MartletSimulator
import Synchronization

@main
struct SimulatorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "martlet-sim",
        abstract: "Run the broker's own code in simulated worlds and check what comes of it.",
        discussion: """
            A seed makes a world: its size, its network, its disk's troubles, and everything that \
            happens. The same seed always makes the same one.
            """)

    @Option(help: ArgumentHelp("Run the world of one seed.", valueName: "n"))
    var seed: UInt64?

    @Option(help: ArgumentHelp("Run a range of seeds, written A..<B.", valueName: "a..<b"))
    var seeds: SeedRange?

    @Flag(help: "Tell what happens; with --seed.")
    var trace = false

    @Option(
        name: .customLong("break"),
        help: ArgumentHelp(
            """
            Break something on purpose: \
            \(Canary.allCases.map(\.rawValue).joined(separator: ", ")).
            """, valueName: "what"))
    var canary: CanaryName?

    @Flag(help: "Make worlds with a cluster of three nodes.")
    var cluster = false

    @Option(
        name: .customLong("break-cluster"),
        help: ArgumentHelp(
            """
            Give up a guard of the cluster on purpose: \
            \(ClusterCanary.allCases.map(\.rawValue).joined(separator: ", ")).
            """, valueName: "what"))
    var clusterCanary: ClusterCanaryName?

    @Option(
        name: .customLong("slow-log"),
        help: ArgumentHelp(
            "With --seed: run a cluster whose log takes so long for a commit, and tell for how long no "
                + "node is active.", valueName: "milliseconds"))
    var slowLog: Int64?

    @Flag(help: "Also make worlds in which something is known not to be as it should.")
    var known = false

    @Option(help: "Threads, each with worlds of its own; one a core unless said otherwise.")
    var threads = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))

    func validate() throws {
        if (seed == nil) == (seeds == nil) {
            throw ValidationError("Give either --seed or --seeds.")
        }
        if trace, seed == nil { throw ValidationError("--trace tells of one --seed.") }
        if slowLog != nil, seed == nil { throw ValidationError("--slow-log runs one --seed.") }
        if threads < 1 { throw ValidationError("--threads must be at least 1.") }
    }

    func run() throws {
        if let seed {
            let tell: ((String) -> Void)? = trace ? { print($0) } : nil
            if let slowLog {
                let figures = try Simulation.runSlowLog(seed: seed, commit: slowLog, tell: tell)
                print(
                    """
                    commits of \(slowLog) ms: nobody active for \(figures.atChange / 1000) ms at the \
                    change, \(figures.later / 1000) ms later, \(figures.afterKill / 1000) ms after \
                    the end of the active node; \(figures.takeovers) takeovers
                    """)
                for failure in figures.failures { print("  " + failure) }
                if !figures.failures.isEmpty { throw ExitCode.failure }
                return
            }
            let verdict = try run(seed, tell: tell)
            print(
                """
                seed \(seed): \(verdict.kind), \(verdict.messages) messages, \
                \(verdict.deliveries) deliveries, trace \(String(verdict.hash, radix: 16))
                """)
            for failure in verdict.failures { print("  " + failure) }
            if !verdict.failures.isEmpty { throw ExitCode.failure }
        } else if let seeds {
            try run(seeds.range)
        }
    }

    private func run(
        _ seed: UInt64, tell: ((String) -> Void)?
    ) throws -> Simulation.Verdict {
        guard cluster || clusterCanary != nil else {
            return try Simulation.run(
                seed: seed, canary: canary?.canary, hasKnown: known, tell: tell)
        }
        return try Simulation.runCluster(
            seed: seed, canary: clusterCanary?.canary, tell: tell)
    }

    private func run(_ seeds: Range<UInt64>) throws {
        let next = Atomic(seeds.lowerBound)
        let failedCount = Mutex(0)
        let trouble = Mutex<(any Error)?>(nil)
        let deliveries = Atomic(0)
        let started = DispatchTime.now()
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while true {
                let seed = next.add(1, ordering: .relaxed).oldValue
                guard seed < seeds.upperBound else { return }
                do {
                    let verdict = try run(seed, tell: nil)
                    deliveries.add(verdict.deliveries, ordering: .relaxed)
                    guard !verdict.failures.isEmpty else { continue }
                    failedCount.withLock { count in
                        count += 1
                        tell(verdict)
                    }
                } catch {
                    trouble.withLock { $0 = error }
                    return
                }
            }
        }
        if let error = trouble.withLock({ $0 }) { throw error }
        let failed = failedCount.withLock { $0 }
        let nanoseconds = DispatchTime.now().uptimeNanoseconds - started.uptimeNanoseconds
        print(
            """
            \(seeds.count) seeds, \(failed) failed, \
            \(deliveries.load(ordering: .relaxed)) deliveries, \(nanoseconds / 1_000_000) ms
            """)
        if failed > 0 { throw ExitCode.failure }
    }

    private func tell(_ verdict: Simulation.Verdict) {
        print("seed \(verdict.seed) (\(verdict.kind)) failed:")
        for failure in verdict.failures.prefix(3) { print("  " + failure) }
        var broken = canary.map { " --break \($0.canary.rawValue)" } ?? ""
        if known { broken += " --known" }
        if cluster || clusterCanary != nil { broken += " --cluster" }
        if let clusterCanary { broken += " --break-cluster \(clusterCanary.canary.rawValue)" }
        print("  replay: martlet-sim --seed \(verdict.seed)\(broken) --trace")
        fflush(nil)
    }
}

/// A range of seeds on the command line: `A..<B`.
struct SeedRange: ExpressibleByArgument {
    let range: Range<UInt64>

    init?(argument: String) {
        guard let dots = argument.firstRange(of: "..<"),
            let first = UInt64(argument[..<dots.lowerBound]),
            let end = UInt64(argument[dots.upperBound...]), first < end
        else { return nil }
        range = first..<end
    }
}

/// A canary on the command line, by name.
struct CanaryName: ExpressibleByArgument {
    let canary: Canary

    init?(argument: String) {
        guard let canary = Canary(rawValue: argument) else { return nil }
        self.canary = canary
    }

    static var allValueStrings: [String] { Canary.allCases.map(\.rawValue) }
}

/// A guard of a cluster on the command line, by name.
struct ClusterCanaryName: ExpressibleByArgument {
    let canary: ClusterCanary

    init?(argument: String) {
        guard let canary = ClusterCanary(rawValue: argument) else { return nil }
        self.canary = canary
    }

    static var allValueStrings: [String] { ClusterCanary.allCases.map(\.rawValue) }
}
