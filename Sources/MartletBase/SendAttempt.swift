// SPDX-License-Identifier: Apache-2.0
//
// Identifies one attempt of the gateway to send a message, so that a repeated attempt is recognised (GW-8). The identity lets
// the broker recognise a repeated attempt, also after a restart. Rests on nothing.

/// An attempt of the gateway to send a message. The broker keeps the attempt's answer under its `place`, and the
/// next attempt at that place overwrites the answer. The number of kept answers is therefore bounded by the number
/// of concurrent attempts, and answers need no removal.
public struct SendAttempt: Sendable, Hashable {
    /// The number of the place under which the broker keeps the answer.
    public var place: UInt32
    /// A random number that distinguishes the attempt from earlier attempts at its place.
    public var number: UInt64

    public init(place: UInt32, number: UInt64) {
        self.place = place
        self.number = number
    }
}
