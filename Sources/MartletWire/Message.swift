// SPDX-License-Identifier: Apache-2.0
//
// What a sender says and a device receives (MSG-2): a notification, data, or both, or neither, and for
// each platform what differs (MSG-5). Encoded as fields of tag, length and bytes in the order of their
// tags. This is the form for people; the broker checks the bytes in place and merges the blocks
// (`Message+Variants.swift`). Rests on `WireWriter`.

public import MartletBase

/// A message without its target.
public struct Message: Sendable, Hashable {
    /// What the device shows by itself.
    public struct Notification: Sendable, Hashable {
        public var title: String?
        public var body: String?
        /// A URL.
        public var image: String?

        public init(title: String? = nil, body: String? = nil, image: String? = nil) {
            self.title = title
            self.body = body
            self.image = image
        }
    }

    /// One pair of the data that the application gets.
    public struct DataEntry: Sendable, Hashable {
        public var key: String
        public var value: String

        public init(key: String, value: String) {
            self.key = key
            self.value = value
        }
    }

    /// What to do with fields whose tag this version does not know.
    public enum UnknownTags: Sendable {
        /// A device: a later version may say more than it understands.
        case skip
        /// A broker: it must not pass on what it cannot check.
        case refuse
    }

    /// nil where none of its fields is there.
    public var notification: Notification?
    /// In the order the sender gave; keys are distinct.
    public var data: [DataEntry]
    /// MSG-5: what holds for one platform only. Merged by the broker; a device gets none of them.
    public var android: Android?
    public var apns: APNS?
    public var webpush: WebPush?
    /// Only in what a device gets: the options of its platform's block.
    public var options: [DataEntry] = []
    /// Only in what an Apple device gets: what its block says beside texts.
    public var applePayload = ApplePayload()

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

    public init(
        notification: Notification? = nil, data: KeyValuePairs<String, String>,
        android: Android? = nil, apns: APNS? = nil, webpush: WebPush? = nil
    ) {
        self.init(
            notification: notification,
            data: data.map { DataEntry(key: $0.key, value: $0.value) }, android: android,
            apns: apns, webpush: webpush)
    }

    /// The value of a data key.
    public subscript(key: String) -> String? {
        data.first { $0.key == key }?.value
    }

    /// MSG-3: what counts against the 4000 bytes where no block changes it.
    public var payloadBytes: Int {
        var bytes = data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        bytes += notification?.title?.utf8.count ?? 0
        bytes += notification?.body?.utf8.count ?? 0
        bytes += notification?.image?.utf8.count ?? 0
        return bytes
    }

    /// The bytes for SEND, checked against every rule that the broker checks (MSG-2…MSG-5).
    public func encoded() throws(MartletError) -> [UInt8] {
        // A field cannot say how long it is past 65,535 bytes: these come before the encoding.
        guard payloadBytes <= Limits.payloadBytesMax || hasBlocks else {
            throw Self.tooLong(payloadBytes, field: "message")
        }
        guard data.count <= Limits.dataEntriesMax else { throw Self.tooManyEntries("message") }
        var writer = WireWriter()
        encode(into: &writer)
        if writer.isClipped { throw Self.clipped }
        _ = try Self.variants(of: writer.bytes, target: .token)
        return writer.bytes
    }

    private var hasBlocks: Bool { android != nil || apns != nil || webpush != nil }

    /// The fields, unchecked.
    public func encode(into writer: inout WireWriter) {
        Self.encode(notification, into: &writer)
        Self.encode(data, as: Tag.data, into: &writer)
        encodeBlocks(into: &writer)
        Self.encode(options, as: Tag.option, into: &writer)
        applePayload.encode(into: &writer)
    }
}
