// SPDX-License-Identifier: Apache-2.0
//
// Connections between clients and loops, under the conditions of a world. Rests on Agenda and Trace.

import MartletTransport

/// Carries bytes between clients and ports.
final class SimulatedNetwork {
    let agenda: Agenda
    let trace: Trace
    var conditions: NetworkConditions
    private var random: Randomness
    /// By machine.
    private var ports: [[SimulatedPort]] = []
    private var lastLink = 0
    /// Called with the number of a loop that has work, and its machine; the number behind the last loop is the
    /// committer's.
    var onWake: (_ number: Int, _ machine: Int) -> Void = { _, _ in }
    /// Called with the bytes of a send, as the loop hands the bytes over.
    var onSend: (([UnsafeRawBufferPointer], SimulatedLink) -> Void)?
    /// Canary: chance per thousand of a send whose bytes go to another connection.
    var misdirectChance = 0
    private var links: [SimulatedLink] = []

    init(agenda: Agenda, trace: Trace, conditions: NetworkConditions, random: Randomness) {
        self.agenda = agenda
        self.trace = trace
        self.conditions = conditions
        self.random = random
    }

    /// Replaces the ports of a machine by the ports of new loops. The last port is the committer's, without
    /// connections.
    func listen(_ ports: [SimulatedPort], on machine: Int = 0) {
        while self.ports.count <= machine { self.ports.append([]) }
        for port in self.ports[machine] { port.die() }
        self.ports[machine] = ports
    }

    /// Ends all ports of a machine, because the broker's process has ended.
    func die(_ machine: Int = 0) { listen([], on: machine) }

    /// Brings vanished machines back: none of their connections holds a place any longer.
    func returnVanished() { for port in ports.joined() { port.returnVanished() } }

    /// - Returns: nil if no loop listens.
    func connect(_ client: SimulatedClient) -> SimulatedLink? {
        let machines = ports.filter { $0.count > 1 }
        guard !machines.isEmpty else { return nil }
        lastLink += 1
        let ports = machines.count == 1 ? machines[0] : machines[number(0...(machines.count - 1))]
        let port = ports[number(0...(ports.count - 2))]
        let link = SimulatedLink(number: lastLink, network: self, port: port, client: client)
        trace.note("connect", lastLink, client.number, port.number)
        if misdirectChance > 0 { links.append(link) }
        return link
    }

    func wake(_ number: Int, on machine: Int) { onWake(number, machine) }

    func sends(_ pieces: [UnsafeRawBufferPointer], on link: SimulatedLink) {
        onSend?(pieces, link)
    }

    /// The connection that receives the bytes sent on `link`: `link`, or another connection for the canary.
    func target(of link: SimulatedLink) -> SimulatedLink {
        guard misdirectChance > 0, chance(misdirectChance) else { return link }
        return links.last { $0.isClientOpen && $0 !== link } ?? link
    }

    // MARK: Chance

    func delay() -> Int64 {
        let delay = random.pause(mean: conditions.delayMean)
        return chance(conditions.slowChance) ? delay * 100 : delay
    }

    func sendDelay() -> Int64 { conditions.delayMean < 50 ? 1 : random.pause(mean: 30) }

    func chance(_ perThousand: Int) -> Bool { perThousand > 0 && random.chance(perThousand) }
    func number(_ range: ClosedRange<Int>) -> Int { random.number(range) }
}
