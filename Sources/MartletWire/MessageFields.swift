// SPDX-License-Identifier: Apache-2.0
//
// The form of an encoded message: fields of tag, length and bytes in the order of the tags, both in the message
// itself and within each platform block. Rests on `WireReader`.

import MartletBase

extension Message {
    /// Tags of the fields.
    public enum Tag {
        public static let title: UInt8 = 1
        public static let body: UInt8 = 2
        public static let image: UInt8 = 3
        public static let data: UInt8 = 4
        /// Platform blocks (MSG-5). Only a sender's message has blocks.
        public static let android: UInt8 = 5
        public static let apns: UInt8 = 6
        public static let webpush: UInt8 = 7

        /// Tags that stand only within a block.
        public static let timeToLive: UInt8 = 16
        public static let expiration: UInt8 = 17
        public static let priority: UInt8 = 18
        public static let collapseKey: UInt8 = 19
        public static let restrictedPackageName: UInt8 = 20

        /// Tags that stand within a block, and in the message that a device of the block's platform gets.
        public static let option: UInt8 = 21
        public static let badge: UInt8 = 32
        public static let sound: UInt8 = 33
        public static let category: UInt8 = 34
        public static let contentAvailable: UInt8 = 35
        public static let threadID: UInt8 = 36
        public static let mutableContent: UInt8 = 37
        public static let custom: UInt8 = 38
        public static let subtitle: UInt8 = 39
        public static let aps: UInt8 = 40

        /// True if a field with this tag occurs at most once.
        static func isSingle(_ tag: UInt8) -> Bool {
            switch tag {
            case title...image, android...webpush, timeToLive...restrictedPackageName: true
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
