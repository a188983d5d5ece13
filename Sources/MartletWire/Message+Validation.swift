// SPDX-License-Identifier: Apache-2.0
//
// Checks the bytes of a message: form, known tags, UTF-8, number of data entries, reserved and repeated keys (MSG-4).
// The size is counted here and checked by the engine, because the limit depends on the project (MSG-3). The checks
// read the bytes in place and build a string only for a refusal. Every fault is an INVALID_ARGUMENT that names the
// field and says what to do. Rests on `UTF8Check` and `Limits`.

import MartletBase

extension Message {
    /// Facts about a message as the instances of one platform get it.
    struct Summary {
        var hasNotification = false
        var dataEntries = 0
        /// MSG-3: UTF-8 bytes of title, body, image, data keys and data values.
        var payloadBytes = 0
        /// True for a message without any field.
        var isEmpty = true
        /// True if the message has a notification to show or data to hand over.
        var hasContent: Bool { hasNotification || dataEntries > 0 }

        mutating func count(_ field: Field) {
            // What push services are told is no payload.
            guard !(Tag.expiration...Tag.collapseKey).contains(field.tag) else { return }
            isEmpty = false
            switch field.tag {
            case Tag.title, Tag.body, Tag.image:
                hasNotification = true
                payloadBytes += field.content.count
            case Tag.subtitle: hasNotification = true
            case Tag.option, Tag.aps: if Message.showsText(field) { hasNotification = true }
            case Tag.data:
                dataEntries += 1
                // The two bytes of the key's length are not payload.
                payloadBytes += field.content.count - 2
            default: break
            }
        }
    }

    /// True if the field names notification texts that the application looks up in the user's language.
    private static func showsText(_ field: Field) -> Bool {
        let keys: [StaticString] =
            field.tag == Tag.aps ? ["alert"] : ["title_loc_key", "body_loc_key"]
        let entry = UnsafeRawBufferPointer(rebasing: field.content.dropFirst(2))
        let count = Int(field.content[0]) | Int(field.content[1]) << 8
        return keys.contains { equals(UnsafeRawBufferPointer(rebasing: entry[..<count]), $0) }
    }

    /// A platform's block, in place.
    struct Block {
        var platform: Platform
        var content: UnsafeRawBufferPointer
    }

    /// Result of the checks outside the blocks.
    struct Outline {
        /// Summary of the fields outside the blocks.
        var summary = Summary()
        /// Bytes before the first block.
        var plainBytes = 0
        var blocks: [Block] = []
        /// MSG-11: the field with opaque content.
        var opaque: Field?
    }

    /// Part of a message in which a field stands. The part determines the field name in an error.
    enum Place {
        case common
        case block(Platform)

        var path: String {
            switch self {
            case .common: "message"
            case .block(.android): "message.android"
            case .block(.apple): "message.apns"
            case .block(.web): "message.webpush"
            }
        }

        func path(of tag: UInt8) -> String {
            let name: String
            switch (self, tag) {
            case (.block(.apple), Tag.title...Tag.body), (.block(.apple), Tag.subtitle):
                name = "payload.aps.alert"
            case (.block(.apple), Tag.image): name = "fcm_options.image"
            case (.block(.apple), Tag.option): return path
            case (_, Tag.title...Tag.image), (_, Tag.option): name = "notification"
            case (_, Tag.data): name = "data"
            case (_, Tag.opaque): name = "opaque"
            case (.block(.web), Tag.timeToLive): name = "headers.TTL"
            case (_, Tag.timeToLive): name = "ttl"
            case (_, Tag.expiration): name = "headers.apns-expiration"
            case (.block(.apple), Tag.priority): name = "headers.apns-priority"
            case (.block(.web), Tag.priority): name = "headers.Urgency"
            case (_, Tag.priority): name = "priority"
            case (.block(.apple), Tag.collapseKey): name = "headers.apns-collapse-id"
            case (.block(.web), Tag.collapseKey): name = "headers.Topic"
            case (_, Tag.collapseKey): name = "collapse_key"
            case (_, Tag.restrictedPackageName): name = "restricted_package_name"
            case (_, Tag.custom): name = "payload"
            case (_, Tag.aps): name = "payload.aps"
            case (_, Tag.badge): name = "payload.aps.badge"
            case (_, Tag.sound): name = "payload.aps.sound"
            case (_, Tag.category): name = "payload.aps.category"
            case (_, Tag.contentAvailable): name = "payload.aps.content-available"
            case (_, Tag.threadID): name = "payload.aps.thread-id"
            case (_, Tag.mutableContent): name = "payload.aps.mutable-content"
            default: return path
            }
            return path + "." + name
        }
    }

    /// Checks everything outside the blocks. The sizes are left to the engine.
    static func checkedOutline(_ bytes: UnsafeRawBufferPointer) throws(MartletError) -> Outline {
        var outline = Outline()
        var fields = Fields(bytes)
        while let field = try next(&fields, .common) {
            if let platform = Tag.platform(ofBlock: field.tag) {
                outline.blocks.append(Block(platform: platform, content: field.content))
                continue
            }
            if field.tag == Tag.opaque {
                outline.opaque = field
                continue
            }
            guard (Tag.title...Tag.data).contains(field.tag) else {
                throw unknown(field.tag, .common)
            }
            outline.plainBytes = field.offset + field.content.count
            try checkContent(field, .common)
            outline.summary.count(field)
        }
        // Merging only adds entries, so no block can lower their number.
        guard outline.summary.dataEntries <= Limits.dataEntriesMax else {
            throw tooManyEntries("message")
        }
        if outline.summary.dataEntries > 1 {
            try refuseRepeatedKeys(
                UnsafeRawBufferPointer(rebasing: bytes[..<outline.plainBytes]), Tag.data, .common)
        }
        return outline
    }

    static func next(
        _ fields: inout Fields, _ place: Place
    ) throws(MartletError) -> Field? {
        do {
            return try fields.next()
        } catch {
            throw refusal(error.martletError.message, place.path)
        }
    }

    /// Checks a text or a data entry. Both can stand outside the blocks and within a block.
    static func checkContent(_ field: Field, _ place: Place) throws(MartletError) {
        guard field.tag == Tag.data else {
            return try checkText(field.content, "The text", place.path(of: field.tag))
        }
        let (key, _) = try checkedEntry(field, place)
        if isReserved(key) { throw reserved(key, place) }
    }

    /// Splits an entry into key and value, and checks that both are UTF-8.
    static func checkedEntry(
        _ field: Field, _ place: Place
    ) throws(MartletError) -> (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        let parts: (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)
        do {
            parts = try entry(field.content)
        } catch {
            throw refusal(error.martletError.message, place.path(of: field.tag))
        }
        try checkText(parts.key, "A key", place.path(of: field.tag))
        try checkText(parts.value, "A value", place.path(of: field.tag))
        return parts
    }

    /// - Parameter path: made for a refusal alone.
    static func checkText(
        _ text: UnsafeRawBufferPointer, _ what: String, _ path: @autoclosure () -> String
    ) throws(MartletError) {
        guard UTF8Check.isValid(text) else {
            throw refusal("\(what) is not UTF-8; encode text as UTF-8.", path())
        }
    }

    static func checkLength(
        _ count: Int, _ max: Int, _ what: String, _ path: String
    ) throws(MartletError) {
        guard count <= max else {
            throw refusal("The \(what) has \(count) bytes; at most \(max) are allowed.", path)
        }
    }

    /// MSG-4: true for a key that is reserved for the system.
    static func isReserved(_ key: UnsafeRawBufferPointer) -> Bool {
        func equals(_ text: StaticString) -> Bool { Self.equals(key, text) }
        func begins(_ text: StaticString) -> Bool {
            let prefix = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            return key.count >= prefix.count && prefix.indices.allSatisfy { key[$0] == prefix[$0] }
        }
        return equals("from") || equals("message_type") || equals("collapse_key")
            || begins("google.") || begins("gcm.")
    }

    static func equals(_ key: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        key.elementsEqual(
            UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Refuses a second entry with an equal key. A hash table with open addressing finds the keys; the table has
    /// two slots for each allowed entry. Requires bytes whose form has been checked.
    static func refuseRepeatedKeys(
        _ bytes: UnsafeRawBufferPointer, _ tag: UInt8, _ place: Place
    ) throws(MartletError) {
        let slots = 2 * Limits.dataEntriesMax
        var entries = 0
        let repeated = withUnsafeTemporaryAllocation(of: UInt32.self, capacity: slots) { table in
            table.initialize(repeating: 0)
            var offset = 0
            while offset < bytes.count {
                let length = Int(shortAt(offset + 1, in: bytes))
                defer { offset += Field.headBytes + length }
                guard bytes[offset] == tag else { continue }
                entries += 1
                guard entries <= Limits.dataEntriesMax else { return String?.none }
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
        guard entries <= Limits.dataEntriesMax else { throw tooManyEntries(place.path) }
        if let repeated {
            throw refusal(
                "The key \"\(repeated)\" is there twice; keys are distinct.", place.path(of: tag))
        }
    }

    /// Key of the entry whose tag stands at `offset`.
    private static func keyAt(
        _ offset: Int, in bytes: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        let count = Int(shortAt(offset + 3, in: bytes))
        return UnsafeRawBufferPointer(rebasing: bytes[(offset + 5)..<(offset + 5 + count)])
    }

    private static func shortAt(_ offset: Int, in bytes: UnsafeRawBufferPointer) -> UInt16 {
        UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
    }

    /// FNV-1a. Keys that a sender chose to collide cost at most 256 × 255 / 2 comparisons of short keys.
    private static func hash(_ key: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in key { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return hash ^ (hash >> 32)
    }
}

// MARK: Refusals

extension Message {
    static func refusal(_ message: String, _ field: String) -> MartletError {
        MartletError(.invalidArgument, message, field: field)
    }

    static func unknown(_ tag: UInt8, _ place: Place) -> MartletError {
        switch place {
        case .common:
            refusal(
                "The message has a field of tag \(tag), which version \(WireVersion.current) "
                    + "does not know outside a platform's block; use tags 1 to 8.", place.path)
        case .block:
            refusal("The block has a field of tag \(tag), which is not for it.", place.path)
        }
    }

    static func reserved(
        _ key: UnsafeRawBufferPointer, _ place: Place, tag: UInt8 = Tag.data
    ) -> MartletError {
        refusal(
            "The key \"\(String(decoding: key.prefix(64), as: UTF8.self))\" is reserved; choose "
                + "one that is not from, message_type or collapse_key and does not begin with "
                + "google. or gcm.", place.path(of: tag))
    }

    static func tooManyEntries(_ path: String) -> MartletError {
        refusal(
            "There are too many entries; at most \(Limits.dataEntriesMax) are allowed.",
            path + ".data")
    }

    static var clipped: MartletError {
        refusal("A text or a block has more than 65535 bytes; make it shorter.", "message")
    }
}
