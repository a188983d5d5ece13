// SPDX-License-Identifier: Apache-2.0
//
// The limits of TLS on the device port, each with its reason (OPS-6). Rests on nothing.

/// The bounds of TLS (OPS-6).
public enum TLSLimits {
    /// Plain bytes of a record (Source: RFC 8446 §5.1).
    public static let recordPlainBytesMax = 16_384
    /// Bytes of a record after its header (Source: RFC 8446 §5.2): a cipher may add 256 bytes.
    static let recordCipherBytesMax = recordPlainBytesMax + 256
    /// Bytes of a record's header: type, version and length (Source: RFC 8446 §5.1).
    public static let headerBytes = 5
    /// Bytes of a tag; the same for the three ciphers (Source: RFC 5116 §5.1, RFC 8439 §2.8).
    public static let tagBytes = 16
    /// Bytes that a record is longer than its plain bytes. They are its header, the type of its content, and the tag.
    public static let recordOverheadBytes = headerBytes + 1 + tagBytes
    /// Records sealed or opened with one key. RFC 8446 §5.5 allows 2^24.5 records of full size with AES-GCM. The
    /// sender changes its key before the bound. A peer that passes the bound without a new key is refused.
    public static let recordsPerKeyMax: UInt64 = 1 << 24
    /// Records without data that may follow each other: KEY UPDATE, and records of padding alone. An honest peer
    /// needs a few; each costs more work to receive than to send.
    public static let recordsWithoutDataMax = 32
    /// Bytes of certificates that a client may present. A chain of four with keys of RSA has less than half.
    static let clientCertificateBytesMax = 32 * 1024
    /// Tickets for resumption sent after a handshake. A client keeps one connection, and each connection brings a new
    /// ticket.
    static let ticketsPerHandshake = 1
    /// Seconds after which a new key seals tickets. The key before opens tickets for as long again; afterwards the key
    /// is erased, so that nobody can read the names of resumed clients from an old recording.
    public static let ticketKeySeconds: Int64 = 12 * 3600
    /// Seconds for which a ticket is good. Each key lives at least as long.
    static let ticketSeconds = 12 * 3600
}
