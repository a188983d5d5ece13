// SPDX-License-Identifier: Apache-2.0
//
// Makes trouble for a cluster's nodes and its log, then compares the nodes' stores (OPS-7). Nodes are killed, stopped, frozen
// and cut off; servers of the log stop, are promoted, and break waits. Then all troubles end, and all nodes have one history.
// Rests on World and SimulatedCluster.

import Martlet
import MartletBase
import MartletCluster
import MartletRows
import MartletStore

extension World {
    func runCluster(_ canary: ClusterCanary?) throws {
        try beginCluster(canary)
        guard let cluster else { return }
        // While the log is away, a node serves devices with an old store.
        oracle.mayRepeat = { [unowned self] in
            lastAway > agenda.now - Self.awayMax
        }
        oracle.isUnansweredForLong = { [unowned self] message in
            agenda.now - message.lastSent >= Int64(ClusterLimits.away / .microseconds(1))
        }
        beginMixed()
        planClusterTrouble(cluster)
        while oracle.failures.isEmpty, agenda.doNext(until: plan.duration) {}
        // A world that has gone wrong may never come to rest.
        guard oracle.failures.isEmpty else { return }
        makePeace(cluster)
        rest()
        checkAll()
        checkStores(cluster)
    }

    /// Time for which messages may come twice after a node's log was away: a held message may wait for its device.
    private static let awayMax: Int64 = 3_000_000

    // MARK: A slow log

    /// Runs a cluster whose log is slow from the tenth second on. At second 130 the active node is killed.
    /// - Parameter commit: time of a commit, in microseconds.
    func runSlowLog(commit: Int64) throws -> Simulation.SlowLogFigures {
        try beginCluster(nil)
        guard let cluster else { return Simulation.SlowLogFigures() }
        // Devices are not left without their messages for the time of a slow log's commits.
        oracle.mayRepeat = { true }
        var figures = Simulation.SlowLogFigures()
        var pausedSince: Int64?
        func look(_ note: (_ pause: Int64) -> Void, until end: Int64) {
            while agenda.now < end {
                let next = min(agenda.now + 20_000, end)
                while agenda.doNext(until: next) {}
                if machines.contains(where: { $0.broker?.isActive ?? false }) {
                    pausedSince = nil
                } else {
                    pausedSince = pausedSince ?? agenda.now
                    note(agenda.now - (pausedSince ?? agenda.now))
                }
            }
        }
        beginMixed()
        look({ _ in }, until: 10_000_000)
        cluster.database.conditions.standbyLeast = commit
        look({ figures.atChange = max(figures.atChange, $0) }, until: 70_000_000)
        look({ figures.later = max(figures.later, $0) }, until: 130_000_000)
        machines.first { $0.broker?.isActive ?? false }?.crash()
        look({ figures.afterKill = max(figures.afterKill, $0) }, until: plan.duration)
        makePeace(cluster)
        rest()
        checkAll()
        checkStores(cluster)
        figures.takeovers = cluster.observer.takeoverCount
        return figures
    }

    // MARK: Troubles

    private func planClusterTrouble(_ cluster: SimulatedCluster) {
        agenda.after(random.pause(mean: plan.clusterTroubleMean)) { [unowned self] in
            guard !isOver else { return }
            makeTrouble(cluster)
            planClusterTrouble(cluster)
        }
    }

    /// Does something later, as long as there is trouble.
    private func later(_ mean: Int64, _ action: @escaping () -> Void) {
        agenda.after(random.pause(mean: mean)) { [unowned self] in if !isOver { action() } }
    }

    /// Most troubles of a node meet the active one.
    private var victim: Machine {
        let active = machines.first { $0.broker?.isActive ?? false }
        return (random.chance(700) ? active : nil) ?? random.one(of: machines)
    }

    private func makeTrouble(_ cluster: SimulatedCluster) {
        let machine = victim
        switch random.number(0...11) {
        case 0, 1: machine.crash()
        case 2: machine.shutDown()
        case 3, 4:
            machine.freeze(until: agenda.now + min(random.pause(mean: 3_000_000), 12_000_000))
        case 5: cutOff(machine, cluster)
        case 6: cutLink(cluster)
        default: makeServerTrouble(cluster.database)
        }
    }

    private func cutOff(_ machine: Machine, _ cluster: SimulatedCluster) {
        let name = SimulatedCluster.name(of: machine.number)
        trace.note("cut off", machine.number)
        cluster.database.cut(off: name)
        later(2_000_000) { cluster.database.heal(name) }
        if random.chance(500) {
            for other in machines where other !== machine {
                cluster.links.setCut(machine.number, other.number, true)
                later(3_000_000) { cluster.links.setCut(machine.number, other.number, false) }
            }
        }
    }

    private func cutLink(_ cluster: SimulatedCluster) {
        let first = random.number(0...(machines.count - 1))
        let second = (first + random.number(1...(machines.count - 1))) % machines.count
        trace.note("cut", first, second)
        cluster.links.setCut(first, second, true)
        later(3_000_000) { cluster.links.setCut(first, second, false) }
    }

    private func makeServerTrouble(_ database: SimulatedDatabase) {
        let kind = random.number(0...5)
        trace.note("server", kind)
        switch kind {
        case 0:
            database.detachStandby()
            later(700_000) { database.attachStandby() }
        case 1:
            database.stop()
            later(400_000) { database.start() }
        case 2: database.promote()
        case 3: database.breakWait(isKilled: random.chance(500))
        case 4:
            // The primary restarts alone, shows what it has, and is lost.
            database.detachStandby()
            later(60_000) { [unowned self] in
                database.stop()
                later(20_000) { [unowned self] in
                    database.start()
                    later(300_000) { database.promote() }
                }
            }
        default:
            // A wait is broken, and then the primary is lost.
            database.detachStandby()
            later(60_000) { [unowned self] in
                database.breakWait(isKilled: random.chance(300))
                later(300_000) { database.promote() }
            }
        }
    }

    private func makePeace(_ cluster: SimulatedCluster) {
        trace.note("peace", 0)
        let database = cluster.database
        database.conditions = DatabaseConditions()
        if !database.isUp { database.start() }
        database.attachStandby()
        for machine in machines {
            database.heal(SimulatedCluster.name(of: machine.number))
            for other in machines where other !== machine {
                cluster.links.setCut(machine.number, other.number, false)
            }
        }
    }

    // MARK: The stores

    /// Whether all nodes have all rows, or the world has no cluster.
    var isSettled: Bool {
        guard let cluster else { return true }
        return machines.allSatisfy { machine in
            !machine.isFrozen && (try? machine.store.logPosition()) == cluster.observer.last
        }
    }

    private func checkStores(_ cluster: SimulatedCluster) {
        for machine in machines {
            if let reason = machine.broker?.stopReason {
                oracle.fail("node \(machine.number) has stopped: \(reason)")
            }
        }
        do {
            let contents = try machines.map { try $0.store.contentsDigest() }
            for (machine, one) in zip(machines, contents) {
                guard let position = one.position, let first = contents[0].position else {
                    continue
                }
                if position != cluster.observer.last {
                    oracle.fail(
                        """
                        node \(machine.number) is at row \(position.row) of \
                        \(cluster.observer.last.row) (\(machine.process?.description ?? "stopped"))
                        """)
                } else if position == first, one.digest != contents[0].digest {
                    oracle.fail("nodes 0 and \(machine.number) differ at row \(position.row)")
                }
            }
        } catch {
            oracle.fail("the stores cannot be compared: \(error)")
        }
    }
}
