// SPDX-License-Identifier: Apache-2.0
//
// The sizes of one epoll transport. At each bound the behaviour is known: events past a wait come with the next wait,
// bytes past the receive buffer come in the next turn, and a full connection table pauses accepting. Rests on nothing.

/// The sizes of one `EpollTransport`.
public struct EpollConfiguration: Sendable, Hashable {
    /// Concurrent connections. An unused connection costs 20 bytes of tables. Each connection takes a descriptor of
    /// the process; `EpollTransport.connectionsMax` is the number after clamping.
    public var connectionsMax = 65_536
    /// Events of one wait, 12 bytes each. Further events come with the next wait.
    public var eventsPerWait = 1024
    /// Size of the receive buffer, in bytes. All connections share one buffer, because a loop handles the bytes of a
    /// receive before the next receive. A connection receives once per turn, so the size bounds the part of a turn
    /// that a fast sender gets: about 400 messages. A burst of 256 messages of 150 bytes fits: with 16 KiB the burst
    /// took three turns, and each of its recipients three sends.
    public var receiveBufferBytes = 65_536
    /// Connections accepted in one turn. Further connections come in the next turn, after the turn's frames.
    public var acceptsPerTurn = 256
    /// SO_SNDBUF of accepted sockets, in bytes; nil for the kernel's own tuning (up to 4 MiB for a peer that does
    /// not read). A bound makes the kernel memory of slow peers predictable.
    public var socketSendBytes: Int? = nil
    /// Pause of accepting after the kernel ran out of descriptors or memory, in milliseconds: long enough to avoid
    /// spinning, and short relative to a client's own retry.
    public var acceptRetryMilliseconds = 100

    /// The default sizes, as the properties state them.
    public init() {}

    /// A sentence that describes a fault in the sizes, or nil.
    package var fault: String? {
        if connectionsMax < 1 || connectionsMax > 1 << 24 {
            return "connectionsMax must be from 1 to 16777216."
        }
        if eventsPerWait < 1 || eventsPerWait > 65_536 {
            return "eventsPerWait must be from 1 to 65536."
        }
        if receiveBufferBytes < 64 || receiveBufferBytes > 1 << 20 {
            return "receiveBufferBytes must be from 64 to 1048576."
        }
        if acceptsPerTurn < 1 { return "acceptsPerTurn must be at least 1." }
        if let socketSendBytes, socketSendBytes < 1 || socketSendBytes > 1 << 30 {
            return "socketSendBytes must be from 1 to 1073741824."
        }
        if acceptRetryMilliseconds < 1 { return "acceptRetryMilliseconds must be at least 1." }
        return nil
    }
}
