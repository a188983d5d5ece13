// SPDX-License-Identifier: Apache-2.0
//
// The one seam between a loop and the kernel: operations go in, completions come out. A loop is
// generic over `Transport` (never an existential), so the production loop is specialised on
// io_uring and the same code runs on any other implementation. It is a completion interface because
// a readiness interface can be turned into one with a few lines, and not the other way round without
// giving up the batch: everything a loop does between two waits reaches the kernel in one call.
// Rests on nothing but the C type `iovec`.

public import Glibc

/// A connection of one transport.
///
/// `index` is dense below the transport's `connectionsMax` and is meant to index the loop's own slab
/// of sessions. Indices are reused after `.closed`; `generation` tells two occupants apart.
public struct ConnectionID: Hashable, Sendable {
    public let index: UInt32
    /// 24 bits; the upper 8 are zero.
    public let generation: UInt32

    @inlinable public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// One completion.
public enum TransportEvent {
    /// A peer connected; its bytes are already being received.
    case accepted(ConnectionID)
    /// Accepting pauses, for instance because every connection index is taken; the transport tries
    /// again by itself. Told once for each time of trouble, which ends when there is room again.
    case acceptFailed(errno: Int32)
    /// Bytes came; they are valid only until the next call of `nextEvent()`. Never empty.
    case received(ConnectionID, UnsafeRawBufferPointer)
    /// The last event of receiving: 0 means that the peer closed its side, else the error. What was
    /// queued can still be sent. It follows a failed send, if it has not come before.
    case receiveEnded(ConnectionID, errno: Int32)
    /// The outcome of one send, told exactly once, also after `close`: from now on its memory is the
    /// caller's again. `byteCount` may be short, without an error: the caller sends the rest.
    case sent(ConnectionID, byteCount: Int, errno: Int32)
    /// The end of what `close` began: nothing of the connection is in flight, its index may come
    /// again in a later `.accepted`.
    case closed(ConnectionID)
    /// Somebody woke this transport. A `RingWaker`'s values are added together while nobody looks;
    /// a ring's message brings its own value.
    case woken(UInt64)
}

/// A completion interface to connections, driven by one thread.
///
/// The turn of a loop: `nextEvent()` until nil, handling each; then whatever has gathered is handed
/// over (`send`, …); then `submitAndWait`. Operations on a connection that is unknown, of an older
/// generation or being closed are ignored: no event comes of them.
public protocol Transport: ~Copyable {
    /// The next completion that is already here, without a system call.
    mutating func nextEvent() -> TransportEvent?

    /// Hands all queued operations to the kernel and waits for a completion, in one system call.
    ///
    /// - Parameter timeoutMicroseconds: how long to wait at most; 0 does not wait, nil waits for
    ///   ever. It may return earlier without an event (a signal).
    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(RingError)

    /// Sends bytes, which must stay where they are until `.sent`. At most one send per connection
    /// may be in flight.
    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer)

    /// Sends several pieces as one. The pieces must stay until `.sent`, the array of vectors only
    /// until `submitAndWait` returns. At most 1024 vectors.
    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>)

    /// Stops receiving, so that the peer's TCP window closes. What had been received before still
    /// arrives.
    mutating func pauseReceive(_ connection: ConnectionID)

    /// Receives again after `pauseReceive`.
    mutating func resumeReceive(_ connection: ConnectionID)

    /// Tells the peer that nothing more comes, behind what was sent; receiving goes on. No send may be
    /// in flight, and none may follow. A connection that is closed while the peer's bytes are unread is
    /// reset, and a reset overtakes what was sent last: whoever ends a connection with something to say
    /// does this, reads on until the peer has ended too, and only then closes.
    mutating func endSending(_ connection: ConnectionID)

    /// Gives back memory that a burst has left behind. Does nothing unless `nextEvent` has just returned
    /// nil.
    mutating func releaseMemory()

    /// Ends the connection. A send in flight is cancelled, so wait for `.sent` where the last bytes
    /// matter. After it come at most one `.sent`, then `.closed`.
    mutating func close(_ connection: ConnectionID)

    /// Takes no new connections from now on. Those that had been accepted already are still told.
    mutating func stopAccepting()

    /// Connections told by `.accepted` and not yet by `.closed`.
    var connectionCount: Int { get }

    /// Where other transports send their wakes.
    var address: RingAddress { get }

    /// Wakes another transport with a value, together with the next submission.
    mutating func wake(_ other: RingAddress, value: UInt64)

    /// Listens on an address and accepts connections from then on.
    /// - Returns: the port, which matters where 0 was asked for.
    mutating func listen(address: String, port: UInt16) throws(RingError) -> UInt16
}

extension Transport where Self: ~Copyable {
    /// Where connections have no halves, the peer sees the end when the connection is closed.
    public mutating func endSending(_ connection: ConnectionID) {}

    /// Where nothing is left behind, nothing is given back.
    public mutating func releaseMemory() {}
}
