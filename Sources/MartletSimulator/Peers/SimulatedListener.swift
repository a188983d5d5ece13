// SPDX-License-Identifier: Apache-2.0
//
// An app server that takes the messages of devices (UPS-1), on one connection after another. Rests on
// SimulatedServer.

import MartletBase
import MartletWire

/// A listener of a project.
final class SimulatedListener: SimulatedServer {
    private let takingMean: Int64
    private let clock: SimulatedClock
    private var random: Randomness
    /// Beginning of the present connection. `came` has the messages on the connection; `untaken` has the messages
    /// still to be acknowledged.
    private var began = Instant(rawValue: 0)
    private var came: Set<UInt64> = []
    private var untaken: [UInt64: UpstreamModel] = [:]
    private var connections = 0

    init(
        number: Int, project: ProjectModel, administratorKey: String, takingMean: Int64,
        clock: SimulatedClock, network: SimulatedNetwork, oracle: Oracle, random: Randomness
    ) {
        self.takingMean = takingMean
        self.clock = clock
        self.random = random
        super.init(
            number: number, project: project, administratorKey: administratorKey,
            network: network, oracle: oracle)
    }

    func setReading(_ reads: Bool) { link?.setReading(reads) }

    override func handle(_ frame: BrokerFrame) {
        super.handle(frame)
        switch frame {
        case .welcome:
            connections += 1
            came = []
            untaken = [:]
            began = clock.instant
            send(.listenUpstream(ListenUpstreamRequest(correlation: 1)))
        case .upstreamMessage(let delivery): received(delivery)
        default: break
        }
    }

    private func received(_ delivery: UpstreamDelivery) {
        let sent = oracle.came(delivery, in: project, began)
        if !came.insert(delivery.number).inserted {
            oracle.fail("message \(delivery.number) came to one connection twice")
        }
        untaken[delivery.number] = sent
        // An acknowledgement of an earlier connection may arrive after the message came on the present connection.
        let count = untaken.values.count { $0.taken == nil }
        if count > Limits.upstreamWindow {
            oracle.fail("a listener has \(count) messages that nobody has acknowledged")
        }
        let present = connections
        network.agenda.after(random.pause(mean: takingMean)) { [weak self] in
            guard let self, isOpen, connections == present else { return }
            untaken[delivery.number] = nil
            send(.upstreamAcknowledge(UpstreamAcknowledge(numbers: [delivery.number])))
        }
    }
}
