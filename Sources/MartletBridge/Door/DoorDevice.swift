// SPDX-License-Identifier: Apache-2.0
//
// An instance of the door: its address, its place on a link, and its messages in the door. Rests on TakenMessages.

import Martlet

/// An instance that a push service reaches.
final class DoorDevice {
    var instance: BridgedInstance
    var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)
    /// The link with the instance; nil: the instance is not attached.
    var place: (link: DoorLink, channel: UInt8)?
    /// A connection of the instance itself has taken over.
    var isAway = false
    /// The instance has left the door. Messages on their way end without an acknowledgement.
    var hasLeft = false

    init(_ instance: BridgedInstance) { self.instance = instance }
}

@available(*, unavailable)
extension DoorDevice: Sendable {}
