// SPDX-License-Identifier: Apache-2.0
//
// What a sender says and a device receives, byte for byte the same (MSG-2): a notification, data, or
// both, or neither. Encoded as fields of tag, length and bytes in the order of their tags. This is
// the form for people; the broker checks the bytes in place (`Message+Validation.swift`) and passes
// them on. Rests on `WireReader` and `WireWriter`.

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

    /// The fields' numbers on the wire.
    public enum Tag {
        public static let title: UInt8 = 1
        public static let body: UInt8 = 2
        public static let image: UInt8 = 3
        public static let data: UInt8 = 4
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

    public init(notification: Notification? = nil, data: [DataEntry] = []) {
        self.notification = notification
        self.data = data
    }

    public init(notification: Notification? = nil, data: KeyValuePairs<String, String>) {
        self.init(
            notification: notification,
            data: data.map { DataEntry(key: $0.key, value: $0.value) })
    }

    /// The value of a data key.
    public subscript(key: String) -> String? {
        data.first { $0.key == key }?.value
    }

    /// MSG-3: what counts against the 4000 bytes.
    public var payloadBytes: Int {
        var bytes = data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        bytes += notification?.title?.utf8.count ?? 0
        bytes += notification?.body?.utf8.count ?? 0
        bytes += notification?.image?.utf8.count ?? 0
        return bytes
    }

    /// The bytes for SEND, checked against every rule that the broker checks (MSG-2…MSG-4).
    public func encoded() throws(MartletError) -> [UInt8] {
        guard payloadBytes <= Limits.payloadBytesMax else {
            throw Self.tooLong(payloadBytes)
        }
        guard data.count <= Limits.dataEntriesMax else { throw Self.tooManyEntries }
        var writer = WireWriter()
        encode(into: &writer)
        try Self.validate(writer.bytes)
        return writer.bytes
    }

    /// The fields, unchecked.
    public func encode(into writer: inout WireWriter) {
        if let notification {
            field(Tag.title, notification.title, into: &writer)
            field(Tag.body, notification.body, into: &writer)
            field(Tag.image, notification.image, into: &writer)
        }
        for entry in data {
            var content = WireWriter()
            content.string(entry.key)
            content.text(entry.value)
            writer.u8(Tag.data)
            writer.counted(content.bytes)
        }
    }

    private func field(_ tag: UInt8, _ text: String?, into writer: inout WireWriter) {
        guard let text else { return }
        writer.u8(tag)
        writer.string(text)
    }

    /// Reads the fields. Limits and reserved keys are not judged here.
    public init(
        decoding bytes: UnsafeRawBufferPointer, unknownTags: UnknownTags
    ) throws(WireError) {
        self.init()
        var reader = WireReader(bytes)
        var order = FieldOrder()
        var shown = Notification()
        while reader.remaining > 0 {
            let tag = try reader.u8()
            try order.take(tag)
            let start = reader.offset + 2
            let content = try reader.stringBytes()
            switch tag {
            case Tag.title: shown.title = try WireReader.text(content, at: start)
            case Tag.body: shown.body = try WireReader.text(content, at: start)
            case Tag.image: shown.image = try WireReader.text(content, at: start)
            case Tag.data:
                var entry = WireReader(content)
                let key = try entry.string()
                let value = try WireReader.text(entry.rest(), at: start + 2 + key.utf8.count)
                data.append(DataEntry(key: key, value: value))
            default:
                if unknownTags == .refuse {
                    throw .unknownValue(field: "message tag", value: UInt64(tag))
                }
            }
        }
        if shown != Notification() { notification = shown }
    }

    /// The same, for callers without pointers.
    public init(decoding bytes: [UInt8], unknownTags: UnknownTags) throws(WireError) {
        self = try bytes.span.bytes.withUnsafeBytes { (bytes) throws(WireError) in
            try Message(decoding: bytes, unknownTags: unknownTags)
        }
    }

    /// Fields come in the order of their tags; those of a notification come once.
    struct FieldOrder {
        private var last: UInt8 = 0

        mutating func take(_ tag: UInt8) throws(WireError) {
            guard tag > last || (tag == last && tag >= Tag.data) else {
                throw .misplacedMessageField(tag: tag)
            }
            last = tag
        }
    }
}
