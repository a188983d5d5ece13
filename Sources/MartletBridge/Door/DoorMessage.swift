// SPDX-License-Identifier: Apache-2.0
//
// A message in the door, from its coming to its end. Rests on PushService.

import Martlet

/// A message of an instance in the door.
final class DoorMessage {
    let device: DoorDevice
    var handOver: HandOver
    /// Bytes that the message is counted with.
    let byteCount: Int

    init(_ device: DoorDevice, _ handOver: HandOver) {
        self.device = device
        self.handOver = handOver
        byteCount = handOver.message.message.count
    }
}

@available(*, unavailable)
extension DoorMessage: Sendable {}
