// SPDX-License-Identifier: Apache-2.0
//
// The times for which the door of this process hands over. A broker alone hands over from its start to its end. A node of
// a cluster hands over while it is active (OPS-7): each time has a new state, read from the store, because the store has
// everything that the door before has acknowledged. A message that was on its way to a push service at the end of a time
// is handed over again by the next node, unless the answer came in time. Lives on the door's event loop. Rests on
// DoorCore.

import Martlet
import NIOCore

/// The door's times.
final class DoorShift {
    private let broker: Broker
    private let eventLoop: any EventLoop
    private let make: () -> DoorCore
    /// The state of the present time; nil: another node hands over.
    private var core: DoorCore?
    /// States of former times with messages on their way.
    private var former: [DoorCore] = []

    init(_ broker: Broker, _ eventLoop: any EventLoop, _ make: @escaping () -> DoorCore) {
        (self.broker, self.eventLoop, self.make) = (broker, eventLoop, make)
    }

    /// Begins to hand over.
    func begin() {
        guard core == nil else { return }
        let core = make()
        self.core = core
        let (bound, eventLoop) = (NIOLoopBound(core, eventLoop: eventLoop), eventLoop)
        broker.bridges.listen { news in eventLoop.execute { bound.value.take(news) } }
        core.begin()
    }

    /// Hands over no further message. Messages on their way have some seconds to end.
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

    /// Whether no message of a former time is on its way.
    var isQuiet: Bool { former.allSatisfy(\.isQuiet) }

    /// Ends the links of former times.
    func closeLinks() { for core in former { core.closeLinks() } }
}

@available(*, unavailable)
extension DoorShift: Sendable {}
