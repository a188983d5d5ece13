// SPDX-License-Identifier: Apache-2.0
//
// The transport's state of one connection: 4 bytes in a table indexed by direct descriptor. An unused slot is zero,
// so the table takes memory only for the indices that were used.
//
//     free ──accepted──► open ──close()──► closing ──nothing in flight──► close queued ──► free
//
// Invariant: the direct descriptor is closed only when no receive, send or shutdown is in flight. Closing a
// descriptor under an armed multishot receive would leak the socket without a completion. Rests on nothing.

struct ConnectionSlot {
    /// The generation in the lower 24 bits, and the state in the upper byte.
    private var word: UInt32 = 0

    /// The number of the index's occupant; increases when the occupant is freed.
    var generation: UInt32 { word & Self.generationMask }

    var state: State {
        get { State(rawValue: UInt8(word >> 24)) }
        set { word = UInt32(newValue.rawValue) << 24 | generation }
    }

    static let generationMask: UInt32 = 0xFF_FFFF

    struct State: OptionSet {
        let rawValue: UInt8
        /// The index has a connection. Ends with the completion of the close.
        static let open = State(rawValue: 1)
        /// A multishot receive is in flight. Ends with the last completion of the receive.
        static let receiving = State(rawValue: 2)
        /// The loop wants bytes: a receive that ends for a transient reason is armed again.
        static let receiveWanted = State(rawValue: 4)
        /// The stream of bytes has ended; no receive is armed again.
        static let receiveEnded = State(rawValue: 8)
        /// A send is in flight.
        static let sending = State(rawValue: 16)
        /// `close` was called. The loop receives only `.sent` and `.closed` for the connection.
        static let closing = State(rawValue: 32)
        /// A shutdown, of one half or of both, is in flight.
        static let shuttingDown = State(rawValue: 64)
        /// The close of the descriptor is in flight; no other operation is.
        static let closeQueued = State(rawValue: 128)

        static let inFlight: State = [.receiving, .sending, .shuttingDown]
    }

    /// Removes the occupant and begins the next generation.
    mutating func free() {
        word = (generation &+ 1) & Self.generationMask
    }
}
