// SPDX-License-Identifier: Apache-2.0
//
// Opens received records (RFC 8446 §5.2 to §5.4). A record that lies whole in a received chunk is opened in place.
// Only a record that ends in a later chunk is copied; memory for the copy grows with the bytes that have arrived, not
// with the length field, and is freed after the bytes have been used. Each rule of the RFC stands beside the check.

internal import COpenSSL

/// A step of receiving.
public enum TLSReceived {
    /// Plain bytes, at least one. The bytes are borrowed from the chunk or from the session until the next call.
    case data(UnsafeRawBufferPointer)
    /// The chunk is used up.
    case nothing
    /// §6.1: the peer sends no more bytes. The rest of the chunk has no meaning.
    case closed
    /// §6.2: the peer has ended the connection for an error, by the number of its alert. No alert answers.
    case failed(alert: UInt8)
}

extension TLSRecordLayer {
    /// Opens records until one brings data, the peer closes, or `chunk` is used up. `chunk` is advanced past the bytes
    /// taken, and its bytes are overwritten.
    ///
    /// - Throws: the alert that the peer is told. The session receives nothing afterwards.
    public mutating func next(
        _ session: UnsafeMutablePointer<TLSSession>,
        from chunk: inout UnsafeMutableRawBufferPointer
    ) throws(TLSAlert) -> TLSReceived {
        // §6.1: data after a closure alert must be ignored.
        guard !session.pointee.hasPeerClosed else {
            chunk = .init(rebasing: chunk[chunk.count...])
            return .closed
        }
        while let record = try nextRecord(session, from: &chunk) {
            let (type, content) = try open(record, session)
            switch ContentType(rawValue: type) {
            case .applicationData:
                // §5: no other record comes inside of a handshake message.
                guard session.pointee.messageBytes == 0 else { throw .unexpectedMessage }
                // §5.1: zero-length fragments of application data may come, as a protection against traffic analysis.
                guard !content.isEmpty else {
                    try countEmpty(session)
                    continue
                }
                session.pointee.emptyRecords = 0
                return .data(UnsafeRawBufferPointer(content))
            case .alert:
                guard session.pointee.messageBytes == 0 else { throw .unexpectedMessage }
                if let end = try end(by: content, session) { return end }
            case .handshake: try take(content, session)
            // §5: a record of another type ends the connection. After the handshake, change_cipher_spec is such a type.
            case nil: throw .unexpectedMessage
            }
        }
        return .nothing
    }

    private func countEmpty(_ session: UnsafeMutablePointer<TLSSession>) throws(TLSAlert) {
        session.pointee.emptyRecords += 1
        guard session.pointee.emptyRecords <= TLSLimits.recordsWithoutDataMax else {
            throw .unexpectedMessage
        }
    }

    // MARK: Records

    /// Opens a whole record.
    /// - Returns: the type and the bytes of the content.
    private func open(
        _ record: UnsafeMutableRawBufferPointer, _ session: UnsafeMutablePointer<TLSSession>
    ) throws(TLSAlert) -> (type: UInt8, content: UnsafeMutableRawBufferPointer) {
        let sealed = record.count - TLSLimits.headerBytes
        // §5.2: the bytes begin with the content and its type and end with the tag.
        guard sealed >= TLSLimits.tagBytes else { throw .badRecordMAC }
        // §5.3: numbers do not wrap.
        guard session.pointee.receiving.sequence < .max else { throw .unexpectedMessage }
        // §5.5: a peer that does not change its key by itself is asked to.
        if session.pointee.receiving.sequence == recordsPerKeyMax {
            session.pointee.owesKeyUpdate = true
            session.pointee.asksKeyUpdate = true
        }
        let count = sealed - TLSLimits.tagBytes
        let start = record.baseAddress!.assumingMemoryBound(to: UInt8.self)
        guard
            cipher.open(
                session.pointee.suite, &session.pointee.receiving,
                header: UnsafeRawBufferPointer(rebasing: record[..<TLSLimits.headerBytes]),
                start + TLSLimits.headerBytes, count: count)
        else { throw .badRecordMAC }
        // §5.4: the content ends before the zeros of the padding, and a content without a type is refused.
        var end = TLSLimits.headerBytes + count
        while end > TLSLimits.headerBytes, record[end - 1] == 0 { end -= 1 }
        guard end > TLSLimits.headerBytes else { throw .unexpectedMessage }
        // §5.4: content, type and padding have at most 2^14 + 1 bytes.
        guard count <= TLSLimits.recordPlainBytesMax + 1 else { throw .recordOverflow }
        let content = UnsafeMutableRawBufferPointer(
            rebasing: record[TLSLimits.headerBytes..<end - 1])
        return (record[end - 1], content)
    }

    /// The next whole record, in the chunk or in the session's memory; nil when the chunk is used up.
    private func nextRecord(
        _ session: UnsafeMutablePointer<TLSSession>,
        from chunk: inout UnsafeMutableRawBufferPointer
    ) throws(TLSAlert) -> UnsafeMutableRawBufferPointer? {
        if let partial = session.pointee.partial, partial.pointee.isHandedOut {
            UnsafeMutableRawPointer(partial).deallocate()
            session.pointee.partial = nil
        }
        guard session.pointee.partial == nil else { return try goOn(session, from: &chunk) }
        guard chunk.count >= TLSLimits.headerBytes else {
            return chunk.isEmpty ? nil : try goOn(session, from: &chunk)
        }
        let recordBytes = try Self.recordBytes(UnsafeRawBufferPointer(chunk))
        guard chunk.count >= recordBytes else { return try goOn(session, from: &chunk) }
        let record = UnsafeMutableRawBufferPointer(rebasing: chunk[..<recordBytes])
        chunk = UnsafeMutableRawBufferPointer(rebasing: chunk[recordBytes...])
        return record
    }

    /// Bytes of the record with this header.
    private static func recordBytes(_ header: UnsafeRawBufferPointer) throws(TLSAlert) -> Int {
        // §5: after the handshake, all records have the outer type application_data. §5.1: the version must be ignored.
        guard header[0] == ContentType.applicationData.rawValue else { throw .unexpectedMessage }
        let length = Int(header[3]) << 8 | Int(header[4])
        guard length <= TLSLimits.recordCipherBytesMax else { throw .recordOverflow }
        return TLSLimits.headerBytes + length
    }

    /// Continues a record that did not arrive in one piece.
    @inline(never)
    private func goOn(
        _ session: UnsafeMutablePointer<TLSSession>,
        from chunk: inout UnsafeMutableRawBufferPointer
    ) throws(TLSAlert) -> UnsafeMutableRawBufferPointer? {
        if Int(session.pointee.partial?.pointee.count ?? 0) < TLSLimits.headerBytes {
            keep(session, upTo: TLSLimits.headerBytes, from: &chunk)
        }
        guard let header = session.pointee.partial,
            Int(header.pointee.count) >= TLSLimits.headerBytes
        else { return nil }
        let recordBytes = try Self.recordBytes(
            UnsafeRawBufferPointer(
                start: UnsafeRawPointer(header) + PartialRecord.bytesAt,
                count: TLSLimits.headerBytes))
        keep(session, upTo: recordBytes, from: &chunk)
        guard let kept = session.pointee.partial, Int(kept.pointee.count) == recordBytes else {
            return nil
        }
        kept.pointee.isHandedOut = true
        return UnsafeMutableRawBufferPointer(
            start: UnsafeMutableRawPointer(kept) + PartialRecord.bytesAt, count: recordBytes)
    }

    /// Copies the next bytes of an unfinished record of `byteCount` bytes. The capacity doubles, up to the bytes of the
    /// record.
    private func keep(
        _ session: UnsafeMutablePointer<TLSSession>, upTo byteCount: Int,
        from chunk: inout UnsafeMutableRawBufferPointer
    ) {
        let before = Int(session.pointee.partial?.pointee.count ?? 0)
        let count = min(chunk.count, byteCount - before)
        guard count > 0, let source = chunk.baseAddress else { return }
        let capacity = Int(session.pointee.partial?.pointee.capacity ?? 0)
        if before + count > capacity {
            let grown = max(before + count, min(byteCount, max(2 * capacity, 64)))
            let memory = UnsafeMutableRawPointer.allocate(
                byteCount: PartialRecord.bytesAt + grown,
                alignment: MemoryLayout<PartialRecord>.alignment)
            let kept = memory.bindMemory(to: PartialRecord.self, capacity: 1)
            kept.initialize(to: PartialRecord(count: UInt32(before), capacity: UInt32(grown)))
            if let partial = session.pointee.partial {
                (memory + PartialRecord.bytesAt).copyMemory(
                    from: UnsafeRawPointer(partial) + PartialRecord.bytesAt, byteCount: before)
                UnsafeMutableRawPointer(partial).deallocate()
            }
            session.pointee.partial = kept
        }
        guard let kept = session.pointee.partial else { return }
        (UnsafeMutableRawPointer(kept) + PartialRecord.bytesAt + before).copyMemory(
            from: source, byteCount: count)
        kept.pointee.count = UInt32(before + count)
        chunk = UnsafeMutableRawBufferPointer(rebasing: chunk[count...])
    }

    // MARK: Alerts

    /// The end that an alert means; nil if the connection goes on.
    private func end(
        by content: UnsafeMutableRawBufferPointer, _ session: UnsafeMutablePointer<TLSSession>
    ) throws(TLSAlert) -> TLSReceived? {
        // §5.1: an alert is not divided, and a record has one alert.
        guard content.count == 2 else { throw content.isEmpty ? .unexpectedMessage : .decodeError }
        switch content[1] {
        case TLSAlert.closeNotify.rawValue:
            session.pointee.hasPeerClosed = true
            return .closed
        case TLSAlert.userCanceled.rawValue:
            // §6.1: close_notify follows.
            try countEmpty(session)
            return nil
        default:
            // §6.2: both sides end at once.
            session.pointee.hasPeerClosed = true
            session.pointee.hasClosed = true
            return .failed(alert: content[1])
        }
    }

    // MARK: Handshake messages

    /// Takes handshake messages of a client after the handshake: KEY UPDATE alone (§4.6). Tickets come from servers, and
    /// certificates after the handshake only if a server has asked.
    private mutating func take(
        _ content: UnsafeMutableRawBufferPointer, _ session: UnsafeMutablePointer<TLSSession>
    ) throws(TLSAlert) {
        // §5.1: zero-length fragments of handshake messages are refused.
        guard !content.isEmpty else { throw .unexpectedMessage }
        try countEmpty(session)
        for (index, byte) in content.enumerated() {
            session.pointee.message = session.pointee.message << 8 | UInt64(byte)
            session.pointee.messageBytes += 1
            switch session.pointee.messageBytes {
            // §4: type 24 is key_update.
            case 1: guard byte == 24 else { throw .unexpectedMessage }
            // §4.6.3: the message has one byte after type and length.
            case 4: guard session.pointee.message == 24 << 24 | 1 else { throw .decodeError }
            case 5:
                // §4.6.3: update_not_requested is 0, update_requested is 1.
                guard byte <= 1 else { throw .illegalParameter }
                // §5.1: a message before a change of keys ends its record.
                guard index == content.count - 1 else { throw .unexpectedMessage }
                session.pointee.message = 0
                session.pointee.messageBytes = 0
                session.pointee.receiving.update(session.pointee.suite, number: nextKeyNumber())
                if byte == 1 { session.pointee.owesKeyUpdate = true }
            default: break
            }
        }
    }
}
