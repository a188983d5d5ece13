// SPDX-License-Identifier: Apache-2.0
//
// The transport's state of one connection: 20 bytes in a table indexed by connection. An unused slot is zero, so the
// table takes memory only for the indices that were used.
//
//     free ──accepted──► open ──close()──► closing ──`.closed` told──► free
//
// The descriptor is closed by `close()`. Events of epoll for the old descriptor carry the old generation and are
// dropped. Rests on nothing.

struct SocketSlot {
    /// The socket; meaningless while the slot is free or closing.
    var descriptor: Int32 = 0
    /// The number of the index's occupant, 24 bits; increases when the occupant is freed.
    var generation: UInt32 = 0
    /// The next slot of the queue of work or of the free slots. No slot is in both.
    var next: UInt32 = 0
    /// The outcome of the last send: a number of bytes, or a negated errno.
    var sendResult: Int32 = 0
    var state: State = []

    static let generationMask: UInt32 = 0xFF_FFFF
    /// The end of a list of slots.
    static let noIndex = UInt32.max

    struct State: OptionSet {
        let rawValue: UInt16
        /// The index has a connection.
        static let open = State(rawValue: 1 << 0)
        /// The loop wants bytes.
        static let receiveWanted = State(rawValue: 1 << 1)
        /// The socket may have bytes. Set by an edge of epoll; removed by a receive that empties the socket.
        static let readable = State(rawValue: 1 << 2)
        /// The stream ends, breaks, or has urgent data: a short receive does not prove that the socket is empty.
        /// Removed when the kernel says that the socket is empty.
        static let ending = State(rawValue: 1 << 3)
        /// The stream of bytes has ended; nothing is received any more.
        static let receiveEnded = State(rawValue: 1 << 4)
        /// A send has begun, and `.sent` was not told yet.
        static let sending = State(rawValue: 1 << 5)
        /// `sendResult` waits to be told.
        static let sendDone = State(rawValue: 1 << 6)
        /// The socket's buffer is full. Removed by an edge of epoll.
        static let full = State(rawValue: 1 << 7)
        /// `close` was called. The loop receives only `.sent` and `.closed` for the connection.
        static let closing = State(rawValue: 1 << 8)
        /// The slot is in the queue of work.
        static let queued = State(rawValue: 1 << 9)
    }

    /// Whether the slot has an event for the loop, or may have one after a system call.
    var hasWork: Bool {
        if !state.isDisjoint(with: [.sendDone, .closing]) { return true }
        if state.contains(.sending), !state.contains(.full) { return true }
        return state.isSuperset(of: [.readable, .receiveWanted]) && !state.contains(.receiveEnded)
    }

    /// Removes the occupant and begins the next generation.
    mutating func free() {
        generation = (generation &+ 1) & Self.generationMask
        state = []
    }
}
