// SPDX-License-Identifier: Apache-2.0
//
// The counts of a running broker, as plain values (EMB-2). Rests on nothing.

/// Counters since the broker was opened, and gauges of this moment.
public struct BrokerStatistics: Sendable, Hashable {
    /// Open connections of all loops.
    public var connectionCount = 0
    /// Accepted messages of senders. Validated messages and repeated messages count too.
    public var acceptedCount: UInt64 = 0
    /// Messages queued for connections.
    public var deliveredCount: UInt64 = 0
    /// Acknowledgements of devices. An acknowledgement may cover several messages.
    public var acknowledgedCount: UInt64 = 0
    /// How often a session could not keep up and continued from its mailbox (FAN-6).
    public var fellBehindCount: UInt64 = 0
    /// Sends handed to the kernel. A send may carry several messages to a connection.
    public var sendCallCount: UInt64 = 0
    /// Connections ended for a violation of the protocol (NET-3).
    public var protocolViolationCount: UInt64 = 0
    /// How often accepting connections had to pause.
    public var acceptFailureCount: UInt64 = 0
    /// TLS handshakes that succeeded, and how many of these resumed an earlier session.
    public var handshakeCount: UInt64 = 0
    public var resumptionCount: UInt64 = 0
    /// TLS handshakes that failed, and TLS connections ended for an error in a record.
    public var secureFailureCount: UInt64 = 0
    /// TLS connections whose stream of bytes ended without `close_notify`.
    public var truncationCount: UInt64 = 0
    /// Commands that wait in the committer's inbox.
    public var commandsWaiting = 0
    /// Bytes held for frames that wait to be sent.
    public var frameBytes = 0
    /// Bytes of unanswered requests, and of frames that have not arrived whole.
    public var requestBytes = 0
    /// NET-6: the part of `requestBytes` that peers without a credential hold.
    public var strangerBytes = 0
    /// Sealed bytes of TLS connections that the kernel has not taken yet.
    public var sealedBytes = 0
    /// Peers without a credential that were turned away for a bound by address, on their memory, on places or on TLS
    /// handshakes, since the broker was opened.
    public var turnedAwayCount: UInt64 = 0
    /// Bytes of the store's file in use; 0 after the broker is closed.
    public var storeBytesUsed = 0
    /// Bytes allocated by the process, over all its brokers; nil without jemalloc.
    public var allocatedBytes: Int?

    /// Statistics with all counts 0. `Broker.statistics` has the present values.
    public init() {}
}
