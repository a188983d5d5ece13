// SPDX-License-Identifier: Apache-2.0
//
// A loop's answers to an operator (GW-9), and the beginning of each device's connection, which is kept for these answers
// alone. Rests on Delivery.

import MartletBase
import MartletBits
import MartletDelivery
import MartletThreads

/// The beginning of a device's connection, in 24 bytes a place.
struct DeviceOrigin {
    var address: PeerAddress
    /// Seconds of the loop's clock.
    var since: UInt32
    /// PRI-2: how awake the device is, as the device has told last.
    var state: DeviceState
}

extension Loop where Kernel: ~Copyable {
    mutating func look(_ question: LoopQuestion) -> LoopAnswer {
        switch question {
        case .connected(let recipients, let project):
            return .connected(delivery.connected(among: recipients, of: project))
        case .answering(let recipients, let project):
            askUnheard(among: recipients, of: project)
            return .connected(delivery.connected(among: recipients, of: project))
        case .connection(let ordinal, let project):
            guard let mine = delivery.session(of: ordinal, in: project),
                !ConnectionNumbers.isBridge(mine.connectionNumber)
            else { return .connection(nil) }
            let origin = places.origin(of: mine.index).pointee
            return .connection(
                LoopConnection(
                    number: mine.connectionNumber, loop: context.number, address: origin.address,
                    seconds: Int64(time.seconds(at: context.monotonic()) &- origin.since),
                    state: origin.state,
                    session: delivery.look(at: mine.index)))
        }
    }
}
