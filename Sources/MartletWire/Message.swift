// SPDX-License-Identifier: Apache-2.0
//
// A message as a sender writes it and a device reads it (MSG-2): a notification, data, both or neither, and
// overrides for each platform (MSG-5), or opaque bytes (MSG-11). The encoding is a list of fields (tag, length, bytes) in the order of the
// tags. The `Message` type is the form for applications; the broker checks the encoded bytes in place and merges
// the blocks (`Message+Variants.swift`). Rests on `WireWriter`.

public import MartletBase

/// A message without its target.
public struct Message: Sendable, Hashable {
    /// The part of a message that the device shows by itself.
    public struct Notification: Sendable, Hashable {
        /// Title; nil if absent. Its UTF-8 bytes count against the limit of the payload (MSG-3).
        public var title: String?
        /// Body; nil if absent. Its UTF-8 bytes count against the limit of the payload (MSG-3).
        public var body: String?
        /// URL of the image.
        public var image: String?

        /// A notification with the given parts. A part left out is absent.
        public init(title: String? = nil, body: String? = nil, image: String? = nil) {
            self.title = title
            self.body = body
            self.image = image
        }
    }

    /// A key and a value of the data that the application gets.
    public struct DataEntry: Sendable, Hashable {
        /// Name of the entry, distinct in its list. Reserved names are refused for data (MSG-4).
        public var key: String
        /// Text of the entry; JSON for the custom entries and `aps` entries of Apple's dictionary.
        public var value: String

        public init(key: String, value: String) {
            self.key = key
            self.value = value
        }
    }

    /// Rule for a field whose tag this version does not know.
    public enum UnknownTags: Sendable {
        /// Skip the field, as a device does: a later version may send fields that the device does not understand.
        case skip
        /// Refuse the message, as a broker does: the broker must not pass on a field that it cannot check.
        case refuse
    }

    /// The notification; nil if title, body and image are all absent.
    public var notification: Notification?
    /// Data entries in the sender's order, with distinct keys.
    public var data: [DataEntry]
    /// MSG-5: overrides for Android. The broker merges the block into the message, so a device never gets a block.
    public var android: Android?
    /// MSG-5: overrides for Apple's platforms. The broker merges the block into the message.
    public var apns: APNS?
    /// MSG-5: overrides for the web. The broker merges the block into the message.
    public var webpush: WebPush?
    /// MSG-11: content that the broker does not look into, up to `Limits.opaqueBytesMax` bytes, for the instance of one
    /// token. A message with opaque content has no notification, no data, and at most the block for the web, without
    /// texts and data: the message is then for a web instance. nil: the message is not opaque.
    public var opaque: [UInt8]?
    /// Options of the platform's block. Only a received message has them.
    public var options: [DataEntry] = []
    /// Fields of the Apple block beside the texts. Only a message received by an Apple device has them.
    public var applePayload = ApplePayload()

    /// A message to send. A part left out is absent. `options` and `applePayload` stay empty, because only a received
    /// message has them.
    public init(
        notification: Notification? = nil, data: [DataEntry] = [], android: Android? = nil,
        apns: APNS? = nil, webpush: WebPush? = nil
    ) {
        self.notification = notification
        self.data = data
        self.android = android
        self.apns = apns
        self.webpush = webpush
    }

    /// A message to send, with data as a dictionary literal. The entries keep the order of the literal.
    public init(
        notification: Notification? = nil, data: KeyValuePairs<String, String>,
        android: Android? = nil, apns: APNS? = nil, webpush: WebPush? = nil
    ) {
        self.init(
            notification: notification,
            data: data.map { DataEntry(key: $0.key, value: $0.value) }, android: android,
            apns: apns, webpush: webpush)
    }

    /// MSG-11: an opaque message to send, with the sending options and the options of `webpush`.
    public init(opaque: [UInt8], webpush: WebPush? = nil) {
        self.init(webpush: webpush)
        self.opaque = opaque
    }

    /// The value of a data key; nil if the key is absent.
    public subscript(key: String) -> String? { data.value(of: key) }

    /// MSG-3: bytes that count against the project's limit (4000, unless configured otherwise), if no block changes the
    /// payload.
    public var payloadBytes: Int {
        var bytes = data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        bytes += notification?.title?.utf8.count ?? 0
        bytes += notification?.body?.utf8.count ?? 0
        bytes += notification?.image?.utf8.count ?? 0
        return bytes
    }

    /// The encoded message for SEND, after the checks that need no project (MSG-2, MSG-4, MSG-5). The broker also checks
    /// the sizes and the time to live, whose limits depend on the project (MSG-3, TTL-1).
    /// - Throws: `INVALID_ARGUMENT` with the field at fault.
    public func encoded() throws(MartletError) -> [UInt8] {
        guard data.count <= Limits.dataEntriesMax else { throw Self.tooManyEntries("message") }
        var writer = WireWriter()
        encode(into: &writer)
        if writer.isClipped { throw Self.clipped }
        _ = try Self.variants(of: writer.bytes, target: .token)
        return writer.bytes
    }

    /// Appends all fields to the writer, without checks.
    public func encode(into writer: inout WireWriter) {
        Self.encode(notification, into: &writer)
        Self.encode(data, as: Tag.data, into: &writer)
        encodeBlocks(into: &writer)
        if let opaque {
            writer.u8(Tag.opaque)
            writer.counted(opaque)
        }
        Self.encode(options, as: Tag.option, into: &writer)
        applePayload.encode(into: &writer)
    }
}

extension [Message.DataEntry] {
    /// The value of a key; nil if the key is absent. Keys are compared by code point, as in JSON.
    package func value(of key: String) -> String? {
        first { $0.key.utf8.elementsEqual(key.utf8) }?.value
    }
}

extension JSONObject {
    /// Texts of a message by their keys, which are distinct.
    package init(_ entries: [Message.DataEntry]) {
        self.init(entries.map { ($0.key, .string($0.value)) })
    }
}
