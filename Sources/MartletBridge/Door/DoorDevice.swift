// SPDX-License-Identifier: Apache-2.0
//
// An instance in the door: its address, its place on a link, and its messages. Rests on TakenMessages.

import Martlet

/// An instance that a push service reaches.
final class DoorDevice {
    var instance: BridgedInstance
    var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)
    /// Where it is attached; nil if it isn't.
    var place: (link: DoorLink, channel: UInt8)?
    /// Its own connection has taken over.
    var isAway = false
    /// It has left the door. Messages on their way will not be acknowledged.
    var hasLeft = false

    init(_ instance: BridgedInstance) { self.instance = instance }
}

@available(*, unavailable)
extension DoorDevice: Sendable {}
