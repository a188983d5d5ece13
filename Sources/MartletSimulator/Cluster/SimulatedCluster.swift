// SPDX-License-Identifier: Apache-2.0
//
// The cluster of a world: the log's servers, the links between the nodes, and the observer that tells the oracle each
// transaction when the log has it. Rests on Machine, SimulatedLog and SimulatedNodeLinks.

import Martlet
import MartletBase
import MartletCluster
import MartletEngine
import MartletNode
import MartletRows
import MartletStore

/// What the machines of a cluster share.
final class SimulatedCluster {
    unowned let world: World
    let database: SimulatedDatabase
    let links: SimulatedNodeLinks
    let observer: CommitObserver
    let canary: ClusterCanary?
    let beginning: LogPosition

    init(_ world: World, _ canary: ClusterCanary?) {
        self.world = world
        self.canary = canary
        let incarnation = (0..<16).map { _ in UInt8(truncatingIfNeeded: world.random.next()) }
        beginning = LogPosition(beginningOf: incarnation)
        database = SimulatedDatabase(
            agenda: world.agenda, seed: world.random.next(), incarnation: incarnation,
            conditions: world.plan.database, canary: canary?.ofDatabase)
        links = SimulatedNodeLinks(
            agenda: world.agenda, random: Randomness(seed: world.random.next()))
        observer = CommitObserver(world.oracle, beginning: beginning)
        links.listen = { [unowned world] number, end in
            guard let process = world.machines[number].process,
                let broker = world.machines[number].broker
            else { return false }
            end.fiber = process.start { fiber in
                let outbox = LinkOutbox(limit: ClusterLimits.linkBytesMax) { fiber.wake() }
                broker.serve(end, outbox)
            }
            return true
        }
        if canary == .overtaken {
            // Devices that have just got the message move.
            links.overtaken = { [unowned world] in
                world.agenda.after(5000) { [unowned world] in
                    for device in world.devices { device.leave(.reset) }
                }
            }
        }
        if canary == .twice {
            links.arrived = { [unowned world] number in
                if world.random.chance(200) { world.machines[number].broker?.repeatForwarded() }
            }
        }
    }

    /// Releases the references between the parts.
    func end() { links.end() }

    static func name(of machine: Int) -> NodeName {
        // The names of a world's machines are valid.
        (try? NodeName(validating: "node-\(machine)"))!
    }

    /// The place of a new process.
    func place(of machine: Machine, _ process: SimulatedProcess) -> SteppedNode {
        // A process that cannot read its store ends, and is started again.
        var found: LogPosition?
        while found == nil { found = try? machine.store.logPosition() }
        let position = found!
        let sight = NodeSight(observer, process)
        process.sight = sight
        let name = Self.name(of: machine.number)
        let database = Unchecked(database)
        let link = Unchecked(process)
        let configuration = ClusterConfiguration(
            node: name, address: SimulatedNodeNetwork.address(of: machine.number),
            packing: PlainPacking()
        ) { _, _ in
            SimulatedLog(database.value, node: name, user: link.value.current)
        }
        let number = machine.number
        let wake = Unchecked(world)
        return SteppedNode(
            configuration: configuration, applied: position,
            network: SimulatedNodeNetwork(links, machine.number, process),
            owner: CommitterOwner(
                wake: { [wake] in wake.value.machines[number].wakeCommitter() },
                willLog: { now, own, commands in
                    sight.pending = ObservedCommit(now: now, own: own, commands: commands)
                },
                committed: { sight.committed() }))
    }
}

/// A value of the world's one running thread.
struct Unchecked<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}

/// Bodies of rows as they are.
struct PlainPacking: RedoPacking {
    var number: UInt8 { 1 }
    func pack(_ bytes: [UInt8]) -> [UInt8] { bytes }

    func unpack(_ bytes: UnsafeRawBufferPointer, byteCount: Int) -> [UInt8]? {
        bytes.count == byteCount ? Array(bytes) : nil
    }
}
