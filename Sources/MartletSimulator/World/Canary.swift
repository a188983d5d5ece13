// SPDX-License-Identifier: Apache-2.0
//
// Faults put in on purpose: a simulator that misses a canary misses real faults too. Rests on the standard library.

/// A fault put into a world.
package enum Canary: String, CaseIterable, Sendable {
    /// Bytes of some sends go to another connection.
    case misdirect
    /// Some acknowledgements are confirmed and not stored.
    case acknowledgement
    /// Some messages are accepted and not handed to the loops.
    case fanout
    /// The scheduler gives two turns to some projects, and a single turn to the rest.
    case share
    /// A device is sent one message more than its limit per minute or per hour allows (QUO-1).
    case quota
    /// Messages of devices are accepted and not kept.
    case upstream
}
