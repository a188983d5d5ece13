// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a handshake: what the record layer needs to go on. The secrets are overwritten with zeros when the
// value ends. Rests on nothing.

internal import COpenSSL

/// The secrets and record numbers with which a session begins.
public struct TLSSecrets: ~Copyable {
    public let suite: TLSCipherSuite
    /// Records received and sent with the secrets before the session begins.
    let receivedRecords: UInt64
    public let sentRecords: UInt64
    /// Plain bytes of a sent record (RFC 6066 §4).
    public let recordPlainBytes: Int
    private let memory: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - receiving: the traffic secret of the peer, with the bytes of the suite's hash.
    ///   - sending: the traffic secret of this side.
    public init(
        suite: TLSCipherSuite, receiving: RawSpan, sending: RawSpan,
        receivedRecords: UInt64 = 0, sentRecords: UInt64 = 0,
        recordPlainBytes: Int = TLSLimits.recordPlainBytesMax
    ) {
        precondition(
            receiving.byteCount == suite.hashBytes && sending.byteCount == suite.hashBytes,
            "A secret has the bytes of its hash.")
        self.suite = suite
        self.receivedRecords = receivedRecords
        self.sentRecords = sentRecords
        self.recordPlainBytes = recordPlainBytes
        memory = .allocate(byteCount: 2 * suite.hashBytes, alignment: 8)
        let room = memory
        receiving.withUnsafeBytes { room.copyMemory(from: $0) }
        sending.withUnsafeBytes {
            UnsafeMutableRawBufferPointer(rebasing: room[suite.hashBytes...]).copyMemory(from: $0)
        }
    }

    deinit {
        OPENSSL_cleanse(memory.baseAddress, memory.count)
        memory.deallocate()
    }

    func withReceivingSecret<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        body(UnsafeRawBufferPointer(rebasing: memory[..<suite.hashBytes]))
    }

    func withSendingSecret<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        body(UnsafeRawBufferPointer(rebasing: memory[suite.hashBytes...]))
    }
}
