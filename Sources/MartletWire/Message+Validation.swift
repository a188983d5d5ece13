// SPDX-License-Identifier: Apache-2.0
//
// Whether the bytes of a message may be accepted: form, known tags, UTF-8, size (MSG-3), reserved
// and repeated keys (MSG-4). It works on the bytes where they lie and builds no string unless it
// refuses. Every fault is an INVALID_ARGUMENT that names the field and says what to do. Rests on
// `UTF8Check` and `Limits`.

public import MartletBase

extension Message {
    /// What the broker needs to know about a message that it has accepted.
    public struct Summary: Sendable, Hashable {
        public var hasNotification = false
        public var dataEntries = 0
        /// MSG-3: UTF-8 bytes of title, body, image, keys and values.
        public var payloadBytes = 0
        /// A message without payload.
        public var isEmpty: Bool { !hasNotification && dataEntries == 0 }
    }

    /// Checks an encoded message as the broker does before it accepts one.
    @discardableResult
    public static func validate(
        _ bytes: UnsafeRawBufferPointer
    ) throws(MartletError) -> Summary {
        var summary = Summary()
        var reader = WireReader(bytes)
        var order = FieldOrder()
        while reader.remaining > 0 {
            let (tag, content) = try field(&reader, &order)
            switch tag {
            case Tag.title, Tag.body, Tag.image:
                summary.hasNotification = true
                summary.payloadBytes += content.count
                guard UTF8Check.isValid(content) else {
                    throw notUTF8("message.notification", "The notification's \(name(tag))")
                }
            case Tag.data:
                let (key, value) = try entry(content)
                summary.dataEntries += 1
                summary.payloadBytes += key.count + value.count
                guard UTF8Check.isValid(key) else { throw notUTF8("message.data", "A data key") }
                guard UTF8Check.isValid(value) else {
                    throw notUTF8("message.data", "A data value")
                }
                if isReserved(key) { throw reserved(key) }
            default:
                throw MartletError(
                    .invalidArgument,
                    "The message has a field of tag \(tag), which version \(WireVersion.current) "
                        + "does not know; use tags 1 to 4.", field: "message")
            }
        }
        guard summary.payloadBytes <= Limits.payloadBytesMax else {
            throw tooLong(summary.payloadBytes)
        }
        guard summary.dataEntries <= Limits.dataEntriesMax else { throw tooManyEntries }
        if summary.dataEntries > 1 { try refuseRepeatedKeys(bytes) }
        return summary
    }

    /// The same, for callers without pointers.
    @discardableResult
    public static func validate(_ bytes: [UInt8]) throws(MartletError) -> Summary {
        try bytes.span.bytes.withUnsafeBytes { (bytes) throws(MartletError) in
            try validate(bytes)
        }
    }

    /// The next field's tag and content.
    private static func field(
        _ reader: inout WireReader, _ order: inout FieldOrder
    ) throws(MartletError) -> (UInt8, UnsafeRawBufferPointer) {
        do {
            let tag = try reader.u8()
            try order.take(tag)
            return (tag, try reader.stringBytes())
        } catch {
            throw MartletError(.invalidArgument, error.martletError.message, field: "message")
        }
    }

    /// Key and value of a data field.
    private static func entry(
        _ content: UnsafeRawBufferPointer
    ) throws(MartletError) -> (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        var reader = WireReader(content)
        do {
            return (try reader.stringBytes(), reader.rest())
        } catch {
            throw MartletError(.invalidArgument, error.martletError.message, field: "message.data")
        }
    }

    /// MSG-4: keys that belong to the system.
    static func isReserved(_ key: UnsafeRawBufferPointer) -> Bool {
        func equals(_ text: StaticString) -> Bool {
            key.count == text.utf8CodeUnitCount && begins(text)
        }
        func begins(_ text: StaticString) -> Bool {
            let prefix = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            return key.count >= prefix.count && prefix.indices.allSatisfy { key[$0] == prefix[$0] }
        }
        return equals("from") || equals("message_type") || equals("collapse_key")
            || begins("google.") || begins("gcm.")
    }

    /// Finds two equal keys with a table of twice the allowed entries, open addressing. The bytes
    /// have the right form and at most `Limits.dataEntriesMax` entries: both were checked before.
    private static func refuseRepeatedKeys(
        _ bytes: UnsafeRawBufferPointer
    ) throws(MartletError) {
        let slots = 2 * Limits.dataEntriesMax
        let repeated = withUnsafeTemporaryAllocation(of: UInt32.self, capacity: slots) { table in
            table.initialize(repeating: 0)
            var offset = 0
            while offset < bytes.count {
                let length = Int(shortAt(offset + 1, in: bytes))
                defer { offset += 3 + length }
                guard bytes[offset] == Tag.data else { continue }
                let key = keyAt(offset, in: bytes)
                var slot = Int(truncatingIfNeeded: hash(key) % UInt64(slots))
                while table[slot] != 0 {
                    if keyAt(Int(table[slot]) - 1, in: bytes).elementsEqual(key) {
                        return String?(String(decoding: key, as: UTF8.self))
                    }
                    slot = slot + 1 == slots ? 0 : slot + 1
                }
                table[slot] = UInt32(offset + 1)
            }
            return nil
        }
        if let repeated {
            throw MartletError(
                .invalidArgument, "The data key \"\(repeated)\" is there twice; keys are distinct.",
                field: "message.data")
        }
    }

    /// The key of the data field whose tag stands at `offset`.
    private static func keyAt(
        _ offset: Int, in bytes: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        let count = Int(shortAt(offset + 3, in: bytes))
        return UnsafeRawBufferPointer(rebasing: bytes[(offset + 5)..<(offset + 5 + count)])
    }

    private static func shortAt(_ offset: Int, in bytes: UnsafeRawBufferPointer) -> UInt16 {
        UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
    }

    /// FNV-1a. A chosen collision costs at most 256 × 255 / 2 comparisons of short keys.
    private static func hash(_ key: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in key { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return hash ^ (hash >> 32)
    }

    private static func name(_ tag: UInt8) -> String {
        switch tag {
        case Tag.title: "title"
        case Tag.body: "body"
        default: "image"
        }
    }

    private static func notUTF8(_ field: String, _ what: String) -> MartletError {
        MartletError(.invalidArgument, "\(what) is not UTF-8; encode text as UTF-8.", field: field)
    }

    private static func reserved(_ key: UnsafeRawBufferPointer) -> MartletError {
        MartletError(
            .invalidArgument,
            "The data key \"\(String(decoding: key.prefix(64), as: UTF8.self))\" is reserved; choose "
                + "one that is not from, message_type or collapse_key and does not begin with "
                + "google. or gcm.", field: "message.data")
    }

    static func tooLong(_ bytes: Int) -> MartletError {
        MartletError(
            .invalidArgument,
            "The payload has \(bytes) bytes; at most \(Limits.payloadBytesMax) are allowed for title, "
                + "body, image, data keys and values together.", field: "message")
    }

    static var tooManyEntries: MartletError {
        MartletError(
            .invalidArgument,
            "The data has too many entries; at most \(Limits.dataEntriesMax) are allowed.",
            field: "message.data")
    }
}
