// SPDX-License-Identifier: Apache-2.0
//
// The record layer of TLS 1.3 (RFC 8446 §5): the layer begins, seals and ends the sessions of one loop. Bytes in,
// bytes out; no socket, no clock. Opening records is in TLSRecordLayer+Opening.
//
//     plain pieces ──► 23 03 03 length ┌ bytes ┬ type 23 ┐ tag ──► one buffer of records
//                        header          sealed
//
// Rests on RecordCipher and TLSSession.

internal import COpenSSL
public import Glibc

/// The record layer of one loop. Not thread-safe.
public struct TLSRecordLayer: ~Copyable {
    let cipher = RecordCipher()
    private var keysEver: UInt64 = 0
    let recordsPerKeyMax: UInt64

    /// Types of contents (Source: RFC 8446 §5.1, B.1).
    enum ContentType: UInt8 {
        case alert = 21
        case handshake = 22
        case applicationData = 23
    }

    /// - Parameter recordsPerKeyMax: records sealed with a key before the next key; tests set fewer.
    public init(recordsPerKeyMax: UInt64 = TLSLimits.recordsPerKeyMax) {
        self.recordsPerKeyMax = recordsPerKeyMax
    }

    mutating func nextKeyNumber() -> UInt64 {
        keysEver += 1
        return keysEver
    }

    // MARK: Sessions

    /// Begins a session with the secrets of a handshake, in memory of zeros.
    public mutating func begin(
        _ session: UnsafeMutablePointer<TLSSession>, _ secrets: borrowing TLSSecrets
    ) {
        var new = TLSSession()
        new.suite = secrets.suite
        new.recordPlainBytes = UInt16(secrets.recordPlainBytes)
        new.receiving = secrets.withReceivingSecret {
            TrafficKeys(
                secrets.suite, secret: $0, sequence: secrets.receivedRecords,
                number: nextKeyNumber())
        }
        new.sending = secrets.withSendingSecret {
            TrafficKeys(
                secrets.suite, secret: $0, sequence: secrets.sentRecords, number: nextKeyNumber())
        }
        session.initialize(to: new)
        withUnsafeMutableBytes(of: &new) { OPENSSL_cleanse($0.baseAddress, $0.count) }
    }

    /// Ends a session: frees an unfinished record, and overwrites the keys.
    public func end(_ session: UnsafeMutablePointer<TLSSession>) {
        cipher.forget(session.pointee.receiving)
        cipher.forget(session.pointee.sending)
        UnsafeMutableRawPointer(session.pointee.partial)?.deallocate()
        OPENSSL_cleanse(session, MemoryLayout<TLSSession>.stride)
    }

    // MARK: Sealing

    /// Most bytes that `seal` writes for so many plain bytes.
    public func sealedBytesMax(_ plainBytes: Int, _ session: UnsafeMutablePointer<TLSSession>)
        -> Int
    {
        let perRecord = Int(session.pointee.recordPlainBytes)
        let records = (plainBytes + perRecord - 1) / perRecord
        let updates = 1 + records / Int(clamping: recordsPerKeyMax - 1)
        return plainBytes + records * TLSLimits.recordOverheadBytes + updates * Self.keyUpdateBytes
    }

    /// Bytes of a sealed KEY UPDATE, and of a sealed alert.
    public static let keyUpdateBytes = 5 + TLSLimits.recordOverheadBytes
    public static let alertBytes = 2 + TLSLimits.recordOverheadBytes

    /// Seals the first `plainBytes` bytes of some pieces into records.
    ///
    /// - Parameter output: at least `sealedBytesMax(plainBytes)` bytes.
    /// - Returns: the bytes written.
    public mutating func seal(
        _ session: UnsafeMutablePointer<TLSSession>, _ pieces: UnsafeBufferPointer<iovec>,
        plainBytes: Int, into output: UnsafeMutableRawBufferPointer
    ) -> Int {
        precondition(!session.pointee.hasClosed, "Nothing follows close_notify.")
        var written = 0
        var left = plainBytes
        var piece = 0
        var pieceAt = 0
        while left > 0 {
            written += changeKeyIfDue(session, into: .init(rebasing: output[written...]))
            let count = min(left, Int(session.pointee.recordPlainBytes))
            let record = UnsafeMutableRawBufferPointer(
                rebasing: output[written..<written + count + TLSLimits.recordOverheadBytes])
            let sealing = begin(record, session)
            // Short pieces are gathered in the record and sealed there together: a call costs as much as a copy of some
            // thousand bytes. Long pieces are sealed from where they lie.
            var sealed = TLSLimits.headerBytes
            var filled = sealed
            let end = TLSLimits.headerBytes + count
            while filled < end {
                let from = pieces[piece]
                let taken = min(from.iov_len - pieceAt, end - filled)
                let source = UnsafeRawPointer(from.iov_base!) + pieceAt
                if taken >= Self.longPieceBytes {
                    sealGathered(sealing, record, &sealed, filled)
                    cipher.seal(
                        sealing, from: source, into: record.baseAddress! + filled, count: taken)
                    sealed += taken
                } else {
                    (record.baseAddress! + filled).copyMemory(from: source, byteCount: taken)
                }
                filled += taken
                pieceAt += taken
                if pieceAt == from.iov_len {
                    piece += 1
                    pieceAt = 0
                }
            }
            record[end] = ContentType.applicationData.rawValue
            sealGathered(sealing, record, &sealed, end + 1)
            cipher.endSealing(sealing, tag: record.baseAddress! + end + 1)
            written += record.count
            left -= count
        }
        return written
    }

    /// Bytes from which a piece is sealed without a copy.
    private static let longPieceBytes = 2048

    /// Seals in place the bytes of a record from `sealed` to `filled`.
    @inline(__always)
    private func sealGathered(
        _ sealing: RecordCipher.Sealing, _ record: UnsafeMutableRawBufferPointer,
        _ sealed: inout Int, _ filled: Int
    ) {
        guard filled > sealed else { return }
        let start = record.baseAddress! + sealed
        cipher.seal(sealing, from: start, into: start, count: filled - sealed)
        sealed = filled
    }

    /// Writes the header of a record, and begins to seal the record (RFC 8446 §5.2). No padding is added: the lengths
    /// of frames are no secret of this protocol.
    private func begin(
        _ record: UnsafeMutableRawBufferPointer, _ session: UnsafeMutablePointer<TLSSession>
    ) -> RecordCipher.Sealing {
        let sealed = record.count - TLSLimits.headerBytes
        // §5.2: the outer type is application_data, the version is that of TLS 1.2.
        record[0] = ContentType.applicationData.rawValue
        record[1] = 3
        record[2] = 3
        record[3] = UInt8(sealed >> 8)
        record[4] = UInt8(truncatingIfNeeded: sealed)
        return cipher.beginSealing(
            session.pointee.suite, &session.pointee.sending,
            header: UnsafeRawBufferPointer(rebasing: record[..<TLSLimits.headerBytes]))
    }

    /// Seals a record of TLS itself, whose plain bytes lie behind the room for its header.
    private func finish(
        _ record: UnsafeMutableRawBufferPointer, _ type: ContentType,
        _ session: UnsafeMutablePointer<TLSSession>
    ) {
        let tagAt = record.count - TLSLimits.tagBytes
        record[tagAt - 1] = type.rawValue
        let sealing = begin(record, session)
        var sealed = TLSLimits.headerBytes
        sealGathered(sealing, record, &sealed, tagAt)
        cipher.endSealing(sealing, tag: record.baseAddress! + tagAt)
    }

    /// RFC 8446 §4.6.3, §5.5: writes a KEY UPDATE if the peer waits for one, or before the last record of a key.
    /// - Returns: the bytes written.
    public mutating func changeKeyIfDue(
        _ session: UnsafeMutablePointer<TLSSession>, into output: UnsafeMutableRawBufferPointer
    ) -> Int {
        guard
            session.pointee.owesKeyUpdate
                || session.pointee.sending.sequence >= recordsPerKeyMax - 1
        else { return 0 }
        return changeKey(session, asking: session.pointee.asksKeyUpdate, into: output)
    }

    /// Writes a KEY UPDATE, and seals all later records with the next key.
    /// - Parameter asking: whether the peer must change its key too.
    /// - Returns: the bytes written.
    public mutating func changeKey(
        _ session: UnsafeMutablePointer<TLSSession>, asking: Bool,
        into output: UnsafeMutableRawBufferPointer
    ) -> Int {
        let record = UnsafeMutableRawBufferPointer(rebasing: output[..<Self.keyUpdateBytes])
        // struct { KeyUpdateRequest request_update; } KeyUpdate, type 24, length 1.
        for (index, byte) in [24, 0, 0, 1, asking ? 1 : 0].enumerated() {
            record[TLSLimits.headerBytes + index] = UInt8(byte)
        }
        finish(record, .handshake, session)
        session.pointee.sending.update(session.pointee.suite, number: nextKeyNumber())
        session.pointee.owesKeyUpdate = false
        session.pointee.asksKeyUpdate = false
        return record.count
    }

    /// Writes an alert. No record may follow.
    /// - Returns: the bytes written; 0 after an earlier last alert.
    public mutating func sealAlert(
        _ alert: TLSAlert, _ session: UnsafeMutablePointer<TLSSession>,
        into output: UnsafeMutableRawBufferPointer
    ) -> Int {
        guard !session.pointee.hasClosed else { return 0 }
        session.pointee.hasClosed = true
        let record = UnsafeMutableRawBufferPointer(rebasing: output[..<Self.alertBytes])
        // The level: 1 (warning) for closure alerts, 2 (fatal) for all others (RFC 8446 §6).
        record[TLSLimits.headerBytes] = alert == .closeNotify || alert == .userCanceled ? 1 : 2
        record[TLSLimits.headerBytes + 1] = alert.rawValue
        finish(record, .alert, session)
        return record.count
    }
}
