// SPDX-License-Identifier: Apache-2.0
//
// The only interface between a loop and the kernel: operations go in, completions come out. A loop is generic over
// `Transport` (never an existential), so the production loops are specialised for io_uring and for epoll, and the code
// also runs on any other implementation. The interface is based on completions because readiness is easily turned into
// completions (`EpollTransport`), while the reverse would give up the batch: with io_uring all operations that a loop
// queues between two waits reach the kernel in one call. Rests on PeerAddress and the C type `iovec`.

public import Glibc
public import MartletBase

/// A piece of a send. CLiburing declares `iovec` as well, so modules that import both need a name that is only this type's.
public typealias SendPiece = iovec

/// A connection of one transport.
///
/// `index` is dense below the transport's `connectionsMax` and indexes the loop's own slab of sessions. Indices are
/// reused after `.closed`; `generation` distinguishes the occupants of an index.
public struct ConnectionID: Hashable, Sendable {
    /// The place of the connection in the transport's table: 0 ..< `connectionsMax`.
    public let index: UInt32
    /// 24 bits; the upper 8 are zero.
    public let generation: UInt32

    @inlinable public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// What a transport knows of a peer's certificate after an authority has vouched for it.
public struct VerifiedCertificate: Hashable, Sendable {
    /// The subject in the form of RFC 2253, such as `CN=till-7,O=Shop`.
    public let subject: String
    /// The end of the certificate, in seconds since 1970.
    public let expires: Int64

    public init(subject: String, expires: Int64) {
        self.subject = subject
        self.expires = expires
    }
}

/// A completion.
public enum TransportEvent {
    /// A peer connected; the transport receives the peer's bytes, unless `pauseReceive` is called before the next call of
    /// `nextEvent()`.
    case accepted(ConnectionID)
    /// Accepting pauses, for example because every connection index is taken. The transport retries by itself. The
    /// event comes once per period of trouble, and the period ends when there is room again.
    case acceptFailed(errno: Int32)
    /// Bytes arrived. The buffer is valid only until the next call of `nextEvent()`. An empty buffer means that
    /// `keptBytes` has changed.
    case received(ConnectionID, UnsafeRawBufferPointer)
    /// The last event of receiving: errno 0 means that the peer closed its sending side. Queued bytes can still be
    /// sent. A failed send is followed by this event, unless the event came before.
    case receiveEnded(ConnectionID, errno: Int32)
    /// The outcome of a send, reported exactly once, also after `close`. The send's memory belongs to the caller
    /// again. `byteCount` may be short without an error; the caller then sends the rest.
    case sent(ConnectionID, byteCount: Int, errno: Int32)
    /// The connection that `close` ended: no operation of the connection is in flight, and a later `.accepted` may
    /// reuse its index.
    case closed(ConnectionID)
    /// A wake arrived. Values are added together until the transport reads them; a message from ring to ring carries
    /// its own value.
    case woken(UInt64)
}

/// A completion interface to connections, driven by one thread.
///
/// The turn of a loop: call `nextEvent()` until nil and handle each event; hand over the gathered operations
/// (`send`, …); call `submitAndWait`. An operation on an unknown connection, an older generation, or a closing
/// connection is ignored and causes no event.
public protocol Transport: ~Copyable {
    /// The next available completion, without waiting; nil if none is left of the last `submitAndWait`. The events of
    /// one `submitAndWait` are bounded, however fast peers send.
    mutating func nextEvent() -> TransportEvent?

    /// Hands all queued operations to the kernel and waits for a completion.
    ///
    /// - Parameter timeoutMicroseconds: longest wait; 0 does not wait, nil waits without a limit. The call may
    ///   return earlier without an event (a signal).
    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError)

    /// Whether the last `submitAndWait` found more than the ends of sends: bytes of peers, new connections, or wakes.
    /// Exact directly after the call only. A wake may be for messages that the loop has taken already.
    var hasArrivals: Bool { get }

    /// Wrapping count of the arrivals so far.
    var arrivalCount: UInt32 { get }

    /// Sends bytes. The bytes must stay in place until `.sent`. A connection may have at most one send in flight.
    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer)

    /// Sends several pieces as one. The pieces must stay in place until `.sent`, the array of vectors only until
    /// `submitAndWait` returns. At most 1024 vectors.
    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<SendPiece>)

    /// Stops receiving, so that the peer's TCP window closes. Bytes received before still arrive.
    mutating func pauseReceive(_ connection: ConnectionID)

    /// Receives again after `pauseReceive`.
    mutating func resumeReceive(_ connection: ConnectionID)

    /// Ends the sending half after the bytes already sent; receiving continues. No send may be in flight, and none
    /// may follow. A loop that closes a connection after a last frame must call `endSending` first, read until the
    /// peer has ended too, and only then close. Otherwise unread bytes of the peer would turn the close into a
    /// reset, and a reset overtakes the last bytes sent.
    mutating func endSending(_ connection: ConnectionID)

    /// Returns memory that a burst left behind. Has an effect only directly after `nextEvent` returned nil.
    mutating func releaseMemory()

    /// Ends the connection. A send in flight is cancelled, so wait for `.sent` first if the last bytes matter.
    /// Afterwards at most one `.sent` and then `.closed` follow.
    mutating func close(_ connection: ConnectionID)

    /// Accepts no new connections. Connections that the kernel has already accepted are still reported.
    mutating func stopAccepting()

    /// The origin of the connection of the last `.accepted`.
    var acceptedOrigin: ConnectionOrigin { get }

    /// The number of connections between `.accepted` and `.closed`.
    var connectionCount: Int { get }

    /// The target for wakes from other transports.
    var address: TransportAddress { get }

    /// Wakes another transport with a value, together with the next submission.
    mutating func wake(_ other: TransportAddress, value: UInt64)

    /// Bytes of sends in flight that the transport holds in memory of its own.
    var heldBytes: Int { get }

    /// Whether the sends since the last submission hold so much memory of the transport that more of them would not
    /// fit the processor's cache. The loop then submits, and goes on with sends after the events.
    var mustSubmit: Bool { get }

    /// Received bytes of a connection that the transport keeps until more bytes arrive.
    func keptBytes(of connection: ConnectionID) -> Int

    /// Whether the transport leaves the bytes of a new connection unread until it has time for the connection.
    func isUnread(_ connection: ConnectionID) -> Bool

    /// The peer's certificate, if the peer has proved to the transport that the certificate is its own.
    func verifiedCertificate(of connection: ConnectionID) -> VerifiedCertificate?
    /// The reason why the encryption of a connection failed; nil without a failure. A second call returns nil.
    mutating func takeFailure(of connection: ConnectionID) -> String?

    /// Listens on an address and begins to accept connections.
    /// - Returns: the bound port, which differs from `port` if `port` is 0.
    mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16
}

/// A transport over the sockets of the operating system.
public protocol SocketTransport: Transport, SendableMetatype, ~Copyable {
    /// Opens a transport. Must be called on the thread that will use the transport.
    ///
    /// - Parameter connectionsMax: largest number of connections; 0 for a thread that only sleeps and wakes.
    init(connectionsMax: Int) throws(TransportError)

    /// The largest number of connections, after clamping to the limits of the process and of the kernel.
    var connectionsMax: Int { get }

    /// Wakes the transport from any thread.
    var waker: TransportWaker { get }

    /// The connections for each of several transports of a process, within the limits of the process.
    static func connectionsMax(wanted: Int, transportCount: Int) -> Int
}

extension SocketTransport where Self: ~Copyable {
    /// The wanted number, for transports with a limit of their own.
    public static func connectionsMax(wanted: Int, transportCount: Int) -> Int { wanted }

    /// Sockets that one transport may listen on; a loop uses one or two.
    public static var listenersMax: Int { 16 }

    /// - Throws: if a transport with so many listening sockets may have no further one.
    package static func requireRoom(beside listenerCount: Int) throws(TransportError) {
        guard listenerCount < listenersMax else {
            throw .badConfiguration("A transport listens on \(listenersMax) sockets at most.")
        }
    }
}

extension Transport where Self: ~Copyable {
    /// No effect, for transports whose connections have no separate halves: the peer sees the end at `close`.
    public mutating func endSending(_ connection: ConnectionID) {}

    /// This machine, for transports without a network.
    public var acceptedOrigin: ConnectionOrigin {
        ConnectionOrigin(address: .loopback, listener: 0)
    }

    /// No effect, for transports that keep no memory of a burst.
    public mutating func releaseMemory() {}

    /// None, for transports that send from the memory of the caller.
    public var heldBytes: Int { 0 }

    /// Never, for transports that send from the memory of the caller.
    @inlinable public var mustSubmit: Bool { false }

    /// Zero kept bytes, for transports that report bytes at their arrival.
    public func keptBytes(of connection: ConnectionID) -> Int { 0 }

    /// Never, for transports that read all connections.
    public func isUnread(_ connection: ConnectionID) -> Bool { false }

    /// None, for transports without certificates.
    public func verifiedCertificate(of connection: ConnectionID) -> VerifiedCertificate? { nil }
    /// No failure, for transports without encryption.
    public mutating func takeFailure(of connection: ConnectionID) -> String? { nil }

}
