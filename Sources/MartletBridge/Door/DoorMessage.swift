// SPDX-License-Identifier: Apache-2.0
//
// A message while it is in the door. Rests on PushService.

import Martlet
import MartletRows

/// One instance's message, in the door.
final class DoorMessage {
    let device: DoorDevice
    var handOver: HandOver
    /// Which sender's message it is a delivery of, at which service.
    let name: FailingMessages.Name
    /// Whether it is set aside because it keeps failing, and takes none of the project's room.
    var isAside = false
    /// Whether it is being tried on behalf of all deliveries that are set aside with it.
    var isProbe = false

    init(_ device: DoorDevice, _ handOver: HandOver) {
        self.device = device
        self.handOver = handOver
        name = .init(device.instance.bridging.address.kind, handOver.message.messageNumber)
    }
}

@available(*, unavailable)
extension DoorMessage: Sendable {}
