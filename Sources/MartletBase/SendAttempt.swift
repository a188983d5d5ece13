// SPDX-License-Identifier: Apache-2.0
//
// GW-8: names an attempt of the gateway to send a message, so that the broker recognises the attempt
// when the gateway makes it again, also after a restart. Rests on nothing.

/// An attempt of the gateway to send a message. The broker keeps its answer under the attempt's place,
/// and the next attempt at the same place overwrites that answer. So kept answers are never more than
/// attempts at a time, and nobody has to remove them.
public struct SendAttempt: Sendable, Hashable {
    public var place: UInt32
    /// Random: tells the attempt from earlier ones at its place.
    public var number: UInt64

    public init(place: UInt32, number: UInt64) {
        self.place = place
        self.number = number
    }
}
