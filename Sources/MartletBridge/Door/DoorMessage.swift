// SPDX-License-Identifier: Apache-2.0
//
// A message in the door, from its coming to its end. Rests on PushService.

import Martlet
import MartletRows

/// A message of an instance in the door.
final class DoorMessage {
    let device: DoorDevice
    var handOver: HandOver
    /// The sender's message at its service.
    let name: FailingMessages.Name
    /// Whether the message does not count for the project's room, because it keeps failing.
    var isAside = false
    /// Whether the message is tried alone, for all deliveries of its message that are set aside.
    var isProbe = false

    init(_ device: DoorDevice, _ handOver: HandOver) {
        self.device = device
        self.handOver = handOver
        name = .init(device.instance.bridging.address.kind, handOver.message.messageNumber)
    }
}

@available(*, unavailable)
extension DoorMessage: Sendable {}
