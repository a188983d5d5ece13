// SPDX-License-Identifier: Apache-2.0
//
// The form of an encoded message: fields of tag, length and bytes in the order of the tags, both in the message
// itself and within each platform block. Rests on `WireReader`.

import MartletBase

extension Message {
    /// Tags of the fields.
    public enum Tag {
        /// Title of the notification: UTF-8, at most once.
        public static let title: UInt8 = 1
        /// Body of the notification: UTF-8, at most once.
        public static let body: UInt8 = 2
        /// URL of the notification's image: UTF-8, at most once.
        public static let image: UInt8 = 3
        /// A data entry: key and value. The field repeats, once per entry.
        public static let data: UInt8 = 4
        /// Block for Android (MSG-5). Only a sender's message has blocks.
        public static let android: UInt8 = 5
        /// Block for Apple's platforms (MSG-5). Only a sender's message has blocks.
        public static let apns: UInt8 = 6
        /// Block for the web (MSG-5). Only a sender's message has blocks.
        public static let webpush: UInt8 = 7
        /// MSG-11: opaque content, at most once. The only other field is then the block for the web.
        public static let opaque: UInt8 = 8

        /// TTL-1: time to live in seconds, four bytes. Only in a block for Android or the web.
        public static let timeToLive: UInt8 = 16
        /// TTL-1: expiration in seconds since 1970, eight bytes. Only in a block for Apple, and in the message that an
        /// Apple instance gets.
        public static let expiration: UInt8 = 17
        /// PRI-1: priority, one byte. Only in a block.
        public static let priority: UInt8 = 18
        /// COL-1: collapse key, UTF-8. Only in a block, and in the message that an instance gets: of Apple and the web the
        /// block's, of all platforms SEND's.
        public static let collapseKey: UInt8 = 19
        /// MSG-8: package name, UTF-8. Only in a block for Android.
        public static let restrictedPackageName: UInt8 = 20

        /// An option of the platform: key and text. The field repeats, once per option. The field stands in a block,
        /// and in the message that a device of the block's platform gets.
        public static let option: UInt8 = 21
        /// `aps.badge`: four bytes. Only for Apple.
        public static let badge: UInt8 = 32
        /// `aps.sound`: UTF-8. Only for Apple.
        public static let sound: UInt8 = 33
        /// `aps.category`: UTF-8. Only for Apple.
        public static let category: UInt8 = 34
        /// `aps.content-available`: a field without content. Only for Apple.
        public static let contentAvailable: UInt8 = 35
        /// `aps.thread-id`: UTF-8. Only for Apple.
        public static let threadID: UInt8 = 36
        /// `aps.mutable-content`: a field without content. Only for Apple.
        public static let mutableContent: UInt8 = 37
        /// A key beside `aps`, with JSON as value. The field repeats, once per key. Only for Apple.
        public static let custom: UInt8 = 38
        /// Subtitle of `aps.alert`: UTF-8. Only for Apple.
        public static let subtitle: UInt8 = 39
        /// A member of `aps` without a tag of its own, with JSON as value. The field repeats, once per member. Only
        /// for Apple.
        public static let aps: UInt8 = 40

        /// True if a field with this tag occurs at most once.
        static func isSingle(_ tag: UInt8) -> Bool {
            switch tag {
            case title...image, android...opaque, timeToLive...restrictedPackageName: true
            case badge...mutableContent, subtitle: true
            default: false
            }
        }

        /// True if a block of the platform can have a field with this tag.
        static func isAllowed(_ tag: UInt8, in platform: Platform) -> Bool {
            switch tag {
            case title...data, priority, collapseKey: true
            case option: true
            case timeToLive: platform != .apple
            case restrictedPackageName: platform == .android
            case expiration, badge...aps: platform == .apple
            default: false
            }
        }

        static func block(_ platform: Platform) -> UInt8 { android + platform.rawValue - 1 }

        static func platform(ofBlock tag: UInt8) -> Platform? {
            tag >= android ? Platform(rawValue: tag - android + 1) : nil
        }
    }

    /// A field, in place.
    struct Field {
        var tag: UInt8
        /// Offset of the content from the first byte of the message or block.
        var offset: Int
        var content: UnsafeRawBufferPointer

        static let headBytes = 3
    }

    /// Walks over the fields and checks their order.
    struct Fields {
        private var reader: WireReader
        private var last: UInt8 = 0

        init(_ bytes: UnsafeRawBufferPointer) { reader = WireReader(bytes) }

        mutating func next() throws(WireError) -> Field? {
            guard reader.remaining > 0 else { return nil }
            let tag = try reader.u8()
            guard tag > last || (tag == last && tag != 0 && !Tag.isSingle(tag)) else {
                throw .misplacedMessageField(tag: tag)
            }
            last = tag
            let offset = reader.offset + 2
            return Field(tag: tag, offset: offset, content: try reader.stringBytes())
        }
    }

    /// Splits the content of a data entry, an option or a custom entry into key and value.
    static func entry(
        _ content: UnsafeRawBufferPointer
    ) throws(WireError) -> (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        var reader = WireReader(content)
        return (try reader.stringBytes(), reader.rest())
    }
}
