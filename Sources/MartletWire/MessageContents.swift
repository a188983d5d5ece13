// SPDX-License-Identifier: Apache-2.0
//
// Decodes the fields of a message, or of a block in a message, into the form for applications. Limits and reserved
// keys are not checked here. Rests on `MessageFields`.

import MartletBase

extension Message {
    /// All values that fields outside the blocks, or the fields of a block, can hold.
    struct Contents {
        var notification = Notification()
        var data: [DataEntry] = []
        var timeToLiveSeconds: UInt32?
        var expirationSeconds: Int64?
        var priority: MessagePriority?
        var collapseKey: String?
        var restrictedPackageName: String?
        var options: [DataEntry] = []
        var opaque: [UInt8]?
        var payload = ApplePayload()

        var shown: Notification? { notification == Notification() ? nil : notification }

        /// Decodes a field of any kind except a block.
        /// - Returns: false if the tag is unknown.
        mutating func take(_ field: Field) throws(WireError) -> Bool {
            switch field.tag {
            case Tag.title: notification.title = try text(field)
            case Tag.body: notification.body = try text(field)
            case Tag.image: notification.image = try text(field)
            case Tag.data: data.append(try pair(field))
            case Tag.opaque: opaque = [UInt8](field.content)
            case Tag.timeToLive:
                timeToLiveSeconds = try number(field) { (reader) throws(WireError) in
                    try reader.u32()
                }
            case Tag.expiration:
                expirationSeconds = try number(field) { (reader) throws(WireError) in
                    try reader.i64()
                }
            case Tag.priority:
                priority = try number(field) { (reader) throws(WireError) in
                    try reader.choice("priority")
                }
            case Tag.collapseKey: collapseKey = try text(field)
            case Tag.restrictedPackageName: restrictedPackageName = try text(field)
            case Tag.option: options.append(try pair(field))
            case Tag.badge:
                payload.badge = try number(field) { (reader) throws(WireError) in
                    try reader.u32()
                }
            case Tag.sound: payload.sound = try text(field)
            case Tag.category: payload.category = try text(field)
            case Tag.contentAvailable: payload.contentAvailable = try mark(field)
            case Tag.threadID: payload.threadID = try text(field)
            case Tag.mutableContent: payload.mutableContent = try mark(field)
            case Tag.custom: payload.custom.append(try pair(field))
            case Tag.subtitle: payload.subtitle = try text(field)
            case Tag.aps: payload.aps.append(try pair(field))
            default: return false
            }
            return true
        }

        private func text(_ field: Field) throws(WireError) -> String {
            try WireReader.text(field.content, at: field.offset)
        }

        private func pair(_ field: Field) throws(WireError) -> DataEntry {
            let (key, value) = try Message.entry(field.content)
            return DataEntry(
                key: try WireReader.text(key, at: field.offset + 2),
                value: try WireReader.text(value, at: field.offset + 2 + key.count))
        }

        private func number<Value>(
            _ field: Field, _ read: (inout WireReader) throws(WireError) -> Value
        ) throws(WireError) -> Value {
            var reader = WireReader(field.content)
            let value = try read(&reader)
            try reader.finish()
            return value
        }

        private func mark(_ field: Field) throws(WireError) -> Bool {
            try WireReader(field.content).finish()
            return true
        }
    }

    /// Decodes an encoded message. Limits and reserved keys are not checked here.
    public init(
        decoding bytes: UnsafeRawBufferPointer, unknownTags: UnknownTags
    ) throws(WireError) {
        self.init()
        var contents = Contents()
        var fields = Fields(bytes)
        while let field = try fields.next() {
            if let platform = Tag.platform(ofBlock: field.tag) {
                try readBlock(platform, field, unknownTags)
            } else if (Tag.timeToLive...Tag.restrictedPackageName).contains(field.tag) {
                try Self.skip(field, unknownTags)
            } else if try !contents.take(field) {
                try Self.skip(field, unknownTags)
            }
        }
        notification = contents.shown
        data = contents.data
        opaque = contents.opaque
        options = contents.options
        applePayload = contents.payload
    }

    /// Decodes an encoded message, for callers without pointers. Limits and reserved keys are not checked here.
    public init(decoding bytes: [UInt8], unknownTags: UnknownTags) throws(WireError) {
        self = try bytes.span.bytes.withUnsafeBytes { (bytes) throws(WireError) in
            try Message(decoding: bytes, unknownTags: unknownTags)
        }
    }

    private static func skip(_ field: Field, _ unknownTags: UnknownTags) throws(WireError) {
        if unknownTags == .refuse {
            throw .unknownValue(field: "message tag", value: UInt64(field.tag))
        }
    }

    private mutating func readBlock(
        _ platform: Platform, _ block: Field, _ unknownTags: UnknownTags
    ) throws(WireError) {
        var contents = Contents()
        var fields = Fields(block.content)
        while var field = try fields.next() {
            field.offset += block.offset
            guard Tag.isAllowed(field.tag, in: platform) else {
                try Self.skip(field, unknownTags)
                continue
            }
            _ = try contents.take(field)
        }
        switch platform {
        case .android:
            android = Android(
                notification: contents.shown, data: contents.data,
                timeToLiveSeconds: contents.timeToLiveSeconds, priority: contents.priority,
                collapseKey: contents.collapseKey,
                restrictedPackageName: contents.restrictedPackageName, options: contents.options)
        case .apple:
            apns = APNS(
                notification: contents.shown, data: contents.data,
                expirationSeconds: contents.expirationSeconds, priority: contents.priority,
                collapseID: contents.collapseKey, payload: contents.payload,
                options: contents.options)
        case .web:
            webpush = WebPush(
                notification: contents.shown, data: contents.data,
                timeToLiveSeconds: contents.timeToLiveSeconds, priority: contents.priority,
                topic: contents.collapseKey, options: contents.options)
        }
    }
}
