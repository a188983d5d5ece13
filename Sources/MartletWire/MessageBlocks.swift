// SPDX-License-Identifier: Apache-2.0
//
// The platform blocks of a message (MSG-5), in the form for applications. A block overrides or extends the
// message's notification texts and data. The other fields of a block replace SEND's options for the instances of
// the platform. Rests on `Message` and `WireWriter`.

public import MartletBase

extension Message {
    /// Overrides for Android. `nil` and empty fields override nothing.
    public struct Android: Sendable, Hashable {
        /// Texts to show in place of the message's texts.
        public var notification: Notification?
        /// Data entries to add. An entry replaces the message's entry with an equal key.
        public var data: [DataEntry]
        /// TTL-1: seconds, 0 to 2,419,200; 0 is now or never. See `Lifespan.init(androidDuration:)`.
        public var timeToLiveSeconds: UInt32?
        /// PRI-1: priority for instances on Android.
        public var priority: MessagePriority?
        /// COL-1: collapse key.
        public var collapseKey: String?
        /// MSG-8: package name of the only app that gets the message.
        public var restrictedPackageName: String?
        /// Looks and behaviour of the notification: `icon`, `sound`, `channel_id`, `click_action` and so on. The
        /// broker passes the options through.
        public var options: [DataEntry]

        /// A block for Android. A field left out overrides nothing.
        public init(
            notification: Notification? = nil, data: [DataEntry] = [],
            timeToLiveSeconds: UInt32? = nil, priority: MessagePriority? = nil,
            collapseKey: String? = nil, restrictedPackageName: String? = nil,
            options: [DataEntry] = []
        ) {
            self.notification = notification
            self.data = data
            self.timeToLiveSeconds = timeToLiveSeconds
            self.priority = priority
            self.collapseKey = collapseKey
            self.restrictedPackageName = restrictedPackageName
            self.options = options
        }
    }

    /// Overrides for Apple's platforms. `nil` and empty fields override nothing.
    public struct APNS: Sendable, Hashable {
        /// Texts to show in place of the message's texts.
        public var notification: Notification?
        /// Data entries to add. An entry replaces the message's entry with an equal key.
        public var data: [DataEntry]
        /// TTL-1, `apns-expiration`: seconds since 1970; 0 is now or never.
        public var expirationSeconds: Int64?
        /// `apns-priority`: 5 is normal, 10 is high.
        public var priority: MessagePriority?
        /// COL-1, `apns-collapse-id`: collapse key.
        public var collapseID: String?
        /// Further contents of Apple's dictionary.
        public var payload: ApplePayload
        /// Options that belong to the message and not to Apple's dictionary, such as `analytics_label`. The broker
        /// passes the options through.
        public var options: [DataEntry]

        /// A block for Apple's platforms. A field left out overrides nothing.
        public init(
            notification: Notification? = nil, data: [DataEntry] = [],
            expirationSeconds: Int64? = nil, priority: MessagePriority? = nil,
            collapseID: String? = nil, payload: ApplePayload = ApplePayload(),
            options: [DataEntry] = []
        ) {
            self.notification = notification
            self.data = data
            self.expirationSeconds = expirationSeconds
            self.priority = priority
            self.collapseID = collapseID
            self.payload = payload
            self.options = options
        }
    }

    /// Overrides for the web. `nil` and empty fields override nothing.
    public struct WebPush: Sendable, Hashable {
        /// Texts to show in place of the message's texts.
        public var notification: Notification?
        /// Data entries to add. An entry replaces the message's entry with an equal key.
        public var data: [DataEntry]
        /// TTL-1, the header `TTL`: seconds, 0 to 2,419,200; 0 is now or never.
        public var timeToLiveSeconds: UInt32?
        /// The header `Urgency`: `high` is high; `very-low`, `low` and `normal` are all normal.
        public var priority: MessagePriority?
        /// COL-1, the header `Topic`: collapse key.
        public var topic: String?
        /// Looks and behaviour of the notification: `icon`, `tag`, `link` and so on. The broker passes the options
        /// through.
        public var options: [DataEntry]

        /// A block for the web. A field left out overrides nothing.
        public init(
            notification: Notification? = nil, data: [DataEntry] = [],
            timeToLiveSeconds: UInt32? = nil, priority: MessagePriority? = nil,
            topic: String? = nil, options: [DataEntry] = []
        ) {
            self.notification = notification
            self.data = data
            self.timeToLiveSeconds = timeToLiveSeconds
            self.priority = priority
            self.topic = topic
            self.options = options
        }
    }

    /// Contents of Apple's dictionary beside the title and the body of `aps.alert`.
    public struct ApplePayload: Sendable, Hashable {
        /// Subtitle of `aps.alert`; nil if absent.
        public var subtitle: String?
        /// Number in `aps.badge`; nil if absent.
        public var badge: UInt32?
        /// Name in `aps.sound`; nil if absent.
        public var sound: String?
        /// Name in `aps.category`; nil if absent.
        public var category: String?
        /// Name in `aps.thread-id`; nil if absent.
        public var threadID: String?
        /// A silent push: wakes the application and shows no notification.
        public var contentAvailable: Bool
        /// True if `aps.mutable-content` is 1; false if the member is absent.
        public var mutableContent: Bool
        /// Keys beside `aps`, distinct, each with a JSON text as value.
        public var custom: [DataEntry]
        /// Members of `aps` without a field here, such as `interruption-level`. The keys are distinct, and each
        /// value is a JSON text. The value of `alert` is an object: its members join title, subtitle and body.
        public var aps: [DataEntry]

        /// Contents for Apple's dictionary. A part left out is absent from the dictionary.
        public init(
            subtitle: String? = nil, badge: UInt32? = nil, sound: String? = nil,
            category: String? = nil, threadID: String? = nil, contentAvailable: Bool = false,
            mutableContent: Bool = false, custom: [DataEntry] = [], aps: [DataEntry] = []
        ) {
            self.subtitle = subtitle
            self.badge = badge
            self.sound = sound
            self.category = category
            self.threadID = threadID
            self.contentAvailable = contentAvailable
            self.mutableContent = mutableContent
            self.custom = custom
            self.aps = aps
        }
    }
}

// MARK: Writing

extension Message {
    static func encode(_ notification: Notification?, into writer: inout WireWriter) {
        guard let notification else { return }
        text(Tag.title, notification.title, into: &writer)
        text(Tag.body, notification.body, into: &writer)
        text(Tag.image, notification.image, into: &writer)
    }

    static func encode(
        _ entries: [DataEntry], as tag: UInt8, into writer: inout WireWriter
    ) {
        for entry in entries {
            var content = WireWriter()
            content.string(entry.key)
            content.text(entry.value)
            writer.u8(tag)
            writer.counted(content.bytes)
        }
    }

    static func text(_ tag: UInt8, _ text: String?, into writer: inout WireWriter) {
        guard let text else { return }
        writer.u8(tag)
        writer.string(text)
    }

    private static func priority(_ priority: MessagePriority?, into writer: inout WireWriter) {
        guard let priority else { return }
        writer.u8(Tag.priority)
        writer.counted([priority.rawValue])
    }

    private static func timeToLive(_ seconds: UInt32?, into writer: inout WireWriter) {
        guard let seconds else { return }
        writer.u8(Tag.timeToLive)
        writer.u16(4)
        writer.u32(seconds)
    }

    static func block(
        _ platform: Platform, into writer: inout WireWriter, _ write: (inout WireWriter) -> Void
    ) {
        var content = WireWriter()
        write(&content)
        writer.u8(Tag.block(platform))
        writer.counted(content.bytes)
    }

    func encodeBlocks(into writer: inout WireWriter) {
        if let android {
            Self.block(.android, into: &writer) { writer in
                Self.encode(android.notification, into: &writer)
                Self.encode(android.data, as: Tag.data, into: &writer)
                Self.timeToLive(android.timeToLiveSeconds, into: &writer)
                Self.priority(android.priority, into: &writer)
                Self.text(Tag.collapseKey, android.collapseKey, into: &writer)
                Self.text(Tag.restrictedPackageName, android.restrictedPackageName, into: &writer)
                Self.encode(android.options, as: Tag.option, into: &writer)
            }
        }
        if let apns {
            Self.block(.apple, into: &writer) { writer in
                Self.encode(apns.notification, into: &writer)
                Self.encode(apns.data, as: Tag.data, into: &writer)
                if let seconds = apns.expirationSeconds {
                    writer.u8(Tag.expiration)
                    writer.u16(8)
                    writer.i64(seconds)
                }
                Self.priority(apns.priority, into: &writer)
                Self.text(Tag.collapseKey, apns.collapseID, into: &writer)
                Self.encode(apns.options, as: Tag.option, into: &writer)
                apns.payload.encode(into: &writer)
            }
        }
        if let webpush {
            Self.block(.web, into: &writer) { writer in
                Self.encode(webpush.notification, into: &writer)
                Self.encode(webpush.data, as: Tag.data, into: &writer)
                Self.timeToLive(webpush.timeToLiveSeconds, into: &writer)
                Self.priority(webpush.priority, into: &writer)
                Self.text(Tag.collapseKey, webpush.topic, into: &writer)
                Self.encode(webpush.options, as: Tag.option, into: &writer)
            }
        }
    }
}

extension Message.ApplePayload {
    func encode(into writer: inout WireWriter) {
        if let badge {
            writer.u8(Message.Tag.badge)
            writer.u16(4)
            writer.u32(badge)
        }
        Message.text(Message.Tag.sound, sound, into: &writer)
        Message.text(Message.Tag.category, category, into: &writer)
        if contentAvailable {
            writer.u8(Message.Tag.contentAvailable)
            writer.u16(0)
        }
        Message.text(Message.Tag.threadID, threadID, into: &writer)
        if mutableContent {
            writer.u8(Message.Tag.mutableContent)
            writer.u16(0)
        }
        Message.encode(custom, as: Message.Tag.custom, into: &writer)
        Message.text(Message.Tag.subtitle, subtitle, into: &writer)
        Message.encode(aps, as: Message.Tag.aps, into: &writer)
    }
}
