// SPDX-License-Identifier: Apache-2.0
//
// What the transport knows of one connection, 4 bytes in a table indexed by direct descriptor. A slot
// that was never used is zero, so that the table takes memory only as far as it has been used.
//
//     free ──accepted──► open ──close()──► closing ──nothing in flight──► close queued ──► free
//
// Invariant: the direct descriptor is closed only when neither a receive, a send nor a shutdown is
// in flight. Closing it under an armed multishot receive would leak the socket without a completion.
// Rests on nothing.

struct ConnectionSlot {
    /// The generation, and the state in the upper byte.
    private var word: UInt32 = 0

    /// Which occupant of the index this is; counts up when it is freed.
    var generation: UInt32 { word & Self.generationMask }

    var state: State {
        get { State(rawValue: UInt8(word >> 24)) }
        set { word = UInt32(newValue.rawValue) << 24 | generation }
    }

    static let generationMask: UInt32 = 0xFF_FFFF

    struct State: OptionSet {
        let rawValue: UInt8
        /// A connection is here. Ends with the completion of its close.
        static let open = State(rawValue: 1)
        /// A multishot receive is in flight. Ends with its last completion.
        static let receiving = State(rawValue: 2)
        /// The loop wants bytes: a receive that ends for a passing reason is armed again.
        static let receiveWanted = State(rawValue: 4)
        /// The stream of bytes has ended; never armed again.
        static let receiveEnded = State(rawValue: 8)
        /// A send is in flight.
        static let sending = State(rawValue: 16)
        /// `close` was called; the loop hears only of its send and of the end.
        static let closing = State(rawValue: 32)
        /// A shutdown, of one half or of both, is in flight.
        static let shuttingDown = State(rawValue: 64)
        /// The close of the descriptor is in flight; nothing else is.
        static let closeQueued = State(rawValue: 128)

        static let inFlight: State = [.receiving, .sending, .shuttingDown]
    }

    /// Forgets the occupant.
    mutating func free() {
        word = (generation &+ 1) & Self.generationMask
    }
}
