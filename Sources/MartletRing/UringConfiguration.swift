// SPDX-License-Identifier: Apache-2.0
//
// The sizes of one ring. Each is a bound with known behaviour at the bound: a full submission ring
// is submitted, a full completion ring overflows into kernel memory, empty receive buffers pause
// the receives that need one, a full connection table pauses accepting. Rests on nothing.

/// The sizes of one `UringTransport`.
public struct UringConfiguration: Sendable, Hashable {
    /// Connections at once. Each costs 16 bytes of table until it is used. The kernel allows no more
    /// than RLIMIT_NOFILE for each ring: more is clamped, see `UringTransport.connectionsMax`.
    public var connectionsMax = 65_536
    /// Operations between two system calls; a power of two. The kernel holds a request of 256 bytes
    /// for each until the whole batch is submitted: 512 of them and the entries, 64 bytes each, stay in
    /// a core's second cache and are used again by the next batch, 4096 do not. Measured with one
    /// frame to each of 10,000 connections: 4096 cost 1.2 times as much, 128 and 256 slightly more
    /// than 512. A batch takes about 2 ms, which is also what a first reply may wait for.
    public var submissionEntries = 512
    /// Completions that wait for the loop; a power of two. Many times the submissions, since a turn
    /// may submit several batches before it looks, and multishot receives complete without one; past
    /// it the kernel allocates. 16 bytes each.
    public var completionEntries = 16_384
    /// Bytes of one receive buffer. A device's frames are tens of bytes; a sender's burst comes in
    /// several buffers. All buffers together are what a loop's memory begins with.
    public var receiveBufferBytes = 2048
    /// Receive buffers shared by all connections; a power of two up to 32,768. They are taken only
    /// when bytes come and are free again after the event, so 1024 serve any number of connections.
    public var receiveBufferCount = 1024
    /// SO_SNDBUF of accepted sockets, nil for the kernel's own tuning (up to 4 MiB for a peer that
    /// does not read). A bound makes the kernel memory of slow peers predictable.
    public var socketSendBytes: Int? = nil
    /// How long accepting rests after the kernel ran out of descriptors or memory: long enough not
    /// to spin, short beside a client's own retry.
    public var acceptRetryMilliseconds = 100

    public init() {}

    /// What is wrong with the sizes, as a sentence, or nil.
    package var fault: String? {
        func isPowerOfTwo(_ value: Int) -> Bool { value > 0 && value & (value - 1) == 0 }
        if connectionsMax < 1 { return "connectionsMax must be at least 1." }
        if !isPowerOfTwo(submissionEntries) || submissionEntries > 32_768 {
            return "submissionEntries must be a power of two up to 32768."
        }
        if !isPowerOfTwo(completionEntries) || completionEntries < submissionEntries
            || completionEntries > 65_536
        {
            return "completionEntries must be a power of two from submissionEntries to 65536."
        }
        if receiveBufferBytes < 64 || receiveBufferBytes > 1 << 20 {
            return "receiveBufferBytes must be from 64 to 1048576."
        }
        if !isPowerOfTwo(receiveBufferCount) || receiveBufferCount > 32_768 {
            return "receiveBufferCount must be a power of two up to 32768."
        }
        if let socketSendBytes, socketSendBytes < 1 || socketSendBytes > 1 << 30 {
            return "socketSendBytes must be from 1 to 1073741824."
        }
        if acceptRetryMilliseconds < 1 { return "acceptRetryMilliseconds must be at least 1." }
        return nil
    }
}
