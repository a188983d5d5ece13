// SPDX-License-Identifier: Apache-2.0
//
// Decides when this process's door is on duty. A lone broker's is from start to end, one of several nodes' while the node is
// active (OPS-7). Each shift begins with fresh state from the store, which has everything that earlier shifts acknowledged.
// If a shift ends while a message is on its way and the answer doesn't come in time, the next node hands it over again.
// Lives on the door's event loop. Rests on DoorCore.

import Martlet
import MartletCommitter
import NIOCore

/// The door's shifts.
final class DoorShift {
    private let broker: Broker
    private let eventLoop: any EventLoop
    private let make: () -> DoorCore
    /// The present shift; nil while another node hands over.
    private var core: DoorCore?
    /// Earlier shifts that still have messages on their way.
    private var former: [DoorCore] = []

    init(_ broker: Broker, _ eventLoop: any EventLoop, _ make: @escaping () -> DoorCore) {
        (self.broker, self.eventLoop, self.make) = (broker, eventLoop, make)
    }

    /// Begins a shift.
    func begin() {
        guard core == nil else { return }
        let core = make()
        self.core = core
        let (bound, eventLoop) = (NIOLoopBound(core, eventLoop: eventLoop), eventLoop)
        broker.bridges.listen { news in eventLoop.execute { bound.value.take(news) } }
        core.begin()
    }

    /// Ends the shift. Messages on their way get a few seconds.
    func end() {
        guard let core else { return }
        self.core = nil
        broker.bridges.close()
        core.close()
        former.append(core)
        let term = TimeAmount.seconds(BridgeLimits.shutdownSecondsMax)
        eventLoop.assumeIsolated().scheduleTask(in: term) {
            core.closeLinks()
            self.former.removeAll { $0 === core }
        }
    }

    /// Whether no message of an earlier shift is on its way.
    var isQuiet: Bool { former.allSatisfy(\.isQuiet) }

    /// Closes the links of earlier shifts.
    func closeLinks() { for core in former { core.closeLinks() } }
}

@available(*, unavailable)
extension DoorShift: Sendable {}
