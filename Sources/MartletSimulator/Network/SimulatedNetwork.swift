// SPDX-License-Identifier: Apache-2.0
//
// Connections between clients and loops, under the conditions of a world. Rests on Agenda and Trace.

import MartletRing

/// What carries bytes.
final class SimulatedNetwork {
    let agenda: Agenda
    let trace: Trace
    var conditions: NetworkConditions
    private var random: Randomness
    private var ports: [SimulatedPort] = []
    private var lastLink = 0
    /// Somebody has something for a loop, or for the committer behind the last of them.
    var onWake: (Int) -> Void = { _ in }
    /// What a loop sends, as it hands it over.
    var onSend: (([UnsafeRawBufferPointer], SimulatedLink) -> Void)?
    /// Canary: per thousand sends, one whose bytes go to another connection.
    var misdirectChance = 0
    private var links: [SimulatedLink] = []

    init(agenda: Agenda, trace: Trace, conditions: NetworkConditions, random: Randomness) {
        self.agenda = agenda
        self.trace = trace
        self.conditions = conditions
        self.random = random
    }

    /// The broker's machine has new loops. The last port is the committer's, without connections.
    func listen(_ ports: [SimulatedPort]) {
        for port in self.ports { port.die() }
        self.ports = ports
    }

    /// The broker's process has ended.
    func die() { listen([]) }

    /// Machines that vanished are back: none of their connections holds a place any longer.
    func returnVanished() { for port in ports { port.returnVanished() } }

    /// - Returns: nil if nobody listens.
    func connect(_ client: SimulatedClient) -> SimulatedLink? {
        guard ports.count > 1 else { return nil }
        lastLink += 1
        let port = ports[number(0...(ports.count - 2))]
        let link = SimulatedLink(number: lastLink, network: self, port: port, client: client)
        trace.note("connect", lastLink, client.number, port.number)
        if misdirectChance > 0 { links.append(link) }
        return link
    }

    func wake(_ number: Int) { onWake(number) }

    func sends(_ pieces: [UnsafeRawBufferPointer], on link: SimulatedLink) {
        onSend?(pieces, link)
    }

    /// Where bytes sent on a connection go.
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
