// SPDX-License-Identifier: Apache-2.0
//
// The sizes of one ring. At each bound the behaviour is known: a full submission ring is submitted, a full
// completion ring overflows into kernel memory, empty receive buffers pause the receives that need one, and a full
// connection table pauses accepting. Rests on nothing.

/// The sizes of one `UringTransport`.
public struct UringConfiguration: Sendable, Hashable {
    /// Concurrent connections. An unused connection costs 16 bytes of tables. The kernel allows at most
    /// RLIMIT_NOFILE connections per ring; `UringTransport.connectionsMax` is the number after clamping.
    public var connectionsMax = 65_536
    /// Operations between two system calls; a power of two. The kernel holds a request of 256 bytes for each
    /// operation until the whole batch is submitted. 512 requests and their entries of 64 bytes stay in a core's
    /// second-level cache and are reused by the next batch; 4096 do not. Measured with one frame to each of 10,000
    /// connections: 4096 entries cost 1.2 times as much as 512, and 128 or 256 entries cost slightly more than 512.
    /// A batch takes about 2 ms, the longest delay of a first reply.
    public var submissionEntries = 512
    /// Completions that wait for the loop; a power of two, 16 bytes each. Many times `submissionEntries`, because a
    /// turn may submit several batches before it reads completions, and multishot receives complete without a
    /// submission. Past the bound the kernel allocates memory.
    public var completionEntries = 16_384
    /// Size of one receive buffer, in bytes. A device's frame has tens of bytes; a sender's burst takes several
    /// buffers. All buffers together are the base of a loop's memory.
    public var receiveBufferBytes = 2048
    /// Receive buffers shared by all connections; a power of two up to 32,768. A buffer is taken only when bytes
    /// arrive and is free after the event, so 1024 buffers serve any number of connections.
    public var receiveBufferCount = 1024
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
