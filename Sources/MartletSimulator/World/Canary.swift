// SPDX-License-Identifier: Apache-2.0
//
// Faults put in on purpose: a simulator that does not find these finds nothing. Rests on nothing.

/// What is broken in a world.
package enum Canary: String, CaseIterable, Sendable {
    /// Bytes of some sends go to another connection.
    case misdirect
    /// Some acknowledgements are confirmed and not stored.
    case acknowledgement
    /// Some messages are accepted and not handed to the loops.
    case fanout
    /// The scheduler gives one project two turns where others have one.
    case share
    /// A device is sent one message more than QUO-1 allows.
    case quota
    /// What devices send is accepted and not kept.
    case upstream
}
