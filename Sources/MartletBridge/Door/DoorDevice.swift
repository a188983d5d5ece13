// SPDX-License-Identifier: Apache-2.0
//
// An instance in the door: its address, its place on a link, and its messages. Rests on TakenMessages and
// BrokerLink.

import Martlet
import MartletWire

/// An instance that a push service reaches.
final class DoorDevice: LinkedInstance {
    private unowned let project: DoorProject
    var instance: BridgedInstance
    var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)
    var place: (link: BrokerLink, channel: UInt8)?
    /// Its own connection has taken over.
    var isAway = false
    /// It has left the door. Messages on their way will not be acknowledged.
    var hasLeft = false

    init(_ instance: BridgedInstance, of project: DoorProject) {
        self.instance = instance
        self.project = project
    }

    func hello() -> Hello? {
        .device(
            projectID: project.id, token: instance.token.text, deviceKey: project.credential,
            state: .active, unconfirmed: taken.reattach())
    }

    func came(_ message: Deliver) { project.came(message, for: self) }

    func confirmed(_ through: UInt64) { taken.confirmed(through) }

    func detached(for refusal: MartletError?) { project.detached(self, for: refusal) }
}

@available(*, unavailable)
extension DoorDevice: Sendable {}
