// SPDX-License-Identifier: Apache-2.0
//
// What a connection keeps after its handshake: the keys of both directions and a few marks. The values lie in a table
// indexed by connection, because a record is sealed and opened with keys in place. The pages of the table are left out
// of core dumps, and an entry is overwritten with zeros when its connection ends. Rests on TrafficKeys.

internal import COpenSSL
internal import Glibc

/// The TLS state of one connection after its handshake.
public struct TLSSession {
    var receiving = TrafficKeys()
    var sending = TrafficKeys()
    /// A record that has not arrived whole.
    var partial: UnsafeMutablePointer<PartialRecord>?
    public internal(set) var suite = TLSCipherSuite.aes128GCM
    /// Plain bytes of a sent record: fewer than the protocol allows if the client asked for fewer (RFC 6066 §4).
    var recordPlainBytes = UInt16(TLSLimits.recordPlainBytesMax)
    /// Records without data since the last data.
    var emptyRecords: UInt8 = 0
    /// A handshake message that has not arrived whole. Only KEY UPDATE can come, which has 5 bytes.
    var message: UInt64 = 0
    var messageBytes: UInt8 = 0
    /// Whether this side must send KEY UPDATE before its next data (RFC 8446 §4.6.3).
    public internal(set) var owesKeyUpdate = false
    /// Whether the next KEY UPDATE asks the peer for a new key too.
    var asksKeyUpdate = false
    /// Whether the peer has sent `close_notify`.
    public internal(set) var hasPeerClosed = false
    /// Whether this side has sent `close_notify` or another last alert.
    public internal(set) var hasClosed = false

    /// Bytes of an unfinished record that the session keeps in its own memory.
    public var keptBytes: Int {
        guard let partial, !partial.pointee.isHandedOut else { return 0 }
        return Int(partial.pointee.count)
    }
}

/// A record that began in an earlier chunk. The bytes lie in memory directly behind this value.
struct PartialRecord {
    var count: UInt32 = 0
    var capacity: UInt32
    /// Whether the record was handed out, and its memory is free with the next call.
    var isHandedOut = false

    static let bytesAt = 16
}

/// The sessions of a loop, by the number of the connection.
public struct TLSSessionTable: ~Copyable {
    private let base: UnsafeMutablePointer<TLSSession>
    private let byteCount: Int
    public let capacity: Int

    /// Makes a table. Pages of the table take memory only when a session of theirs has begun.
    public init(capacity: Int) {
        byteCount = max(capacity, 1) * MemoryLayout<TLSSession>.stride
        let memory = mmap(
            nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1, 0)
        guard let memory, memory != MAP_FAILED else {
            fatalError("There is no address space for the keys of \(capacity) connections.")
        }
        // Keys must not reach a file: a core dump leaves the table out.
        _ = madvise(memory, byteCount, MADV_DONTDUMP)
        base = memory.bindMemory(to: TLSSession.self, capacity: max(capacity, 1))
        self.capacity = capacity
    }

    deinit {
        OPENSSL_cleanse(base, byteCount)
        munmap(base, byteCount)
    }

    /// The session of a connection. Valid from `begin` to `end`.
    @inline(__always)
    public subscript(_ index: UInt32) -> UnsafeMutablePointer<TLSSession> {
        precondition(Int(index) < capacity, "A session has a place in the table.")
        return base + Int(index)
    }
}
