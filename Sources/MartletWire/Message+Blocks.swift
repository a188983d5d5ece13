// SPDX-License-Identifier: Apache-2.0
//
// Checks a platform's block (MSG-5) and reads how the block changes the sending. Rests on `Message+Validation` and
// `JSONValue`.

import MartletBase

extension Message {
    /// Checks all fields of a block and writes the block's sending options into `traits`.
    /// - Returns: the contents of the block's data entries.
    static func checkBlock(
        _ bytes: UnsafeRawBufferPointer, _ platform: Platform, _ kind: TargetKind,
        _ traits: inout Traits
    ) throws(MartletError) -> [UnsafeRawBufferPointer] {
        let place = Place.block(platform)
        var ownData: [UnsafeRawBufferPointer] = []
        var options: [DataEntry] = []
        var hasPriority = false
        var entries: [UInt8: Int] = [:]
        var fields = Fields(bytes)
        while let field = try next(&fields, place) {
            guard Tag.isAllowed(field.tag, in: platform) else { throw unknown(field.tag, place) }
            switch field.tag {
            case Tag.title...Tag.image, Tag.sound, Tag.category, Tag.threadID, Tag.subtitle:
                try checkText(field.content, "The text", place.path(of: field.tag))
            case Tag.data:
                try checkContent(field, place)
                ownData.append(field.content)
            case Tag.option:
                let (key, value) = try checkedEntry(field, place)
                entries[field.tag, default: 0] += 1
                guard platform == .apple else { break }
                options.append(
                    DataEntry(
                        key: String(decoding: key, as: UTF8.self),
                        value: String(decoding: value, as: UTF8.self)))
            case Tag.custom, Tag.aps:
                try checkJSON(field, place)
                entries[field.tag, default: 0] += 1
            case Tag.contentAvailable, Tag.mutableContent:
                guard field.content.isEmpty else { throw wrongLength(field, 0, place) }
            case Tag.badge:
                guard field.content.count == 4 else { throw wrongLength(field, 4, place) }
            default:
                if field.tag == Tag.priority { hasPriority = true }
                try take(field, place, platform, &traits)
            }
        }
        guard ownData.count <= Limits.dataEntriesMax else { throw tooManyEntries(place.path) }
        if ownData.count > 1 { try refuseRepeatedKeys(bytes, Tag.data, place) }
        for tag in entries.keys.sorted() where entries[tag, default: 0] > 1 {
            try refuseRepeatedKeys(bytes, tag, place)
        }
        if !options.isEmpty {
            try checkSending(options, kind, hasPriority ? traits.priority : nil)
        }
        return ownData
    }

    /// GW-17: checks the options for Apple's push service.
    /// - Parameter priority: the block's own priority; nil: the block has none.
    private static func checkSending(
        _ options: [DataEntry], _ kind: TargetKind, _ priority: MessagePriority?
    ) throws(MartletError) {
        let sending = try AppleSending(options)
        let path = Place.block(.apple).path
        guard sending.activityToken == nil || kind == .token else {
            throw refusal(
                "A Live Activity is on one device, so its message is for one token.",
                "\(path).\(AppleSending.Key.activityToken)")
        }
        guard sending.pushType != .background || priority != .high else {
            throw refusal(
                "Apple refuses a background notification of priority 10; its priority is 5.",
                Place.block(.apple).path(of: Tag.priority))
        }
    }

    /// Checks a field with a sending option, such as the time to live, and writes the option into `traits`.
    private static func take(
        _ field: Field, _ place: Place, _ platform: Platform, _ traits: inout Traits
    ) throws(MartletError) {
        let path = place.path(of: field.tag)
        let content = field.content
        switch field.tag {
        case Tag.timeToLive:
            guard content.count == 4 else { throw wrongLength(field, 4, place) }
            let seconds = content.loadLittleEndian(UInt32.self, at: 0)
            traits.lifespan = .seconds(seconds)
        case Tag.expiration:
            guard content.count == 8 else { throw wrongLength(field, 8, place) }
            let seconds = content.loadLittleEndian(Int64.self, at: 0)
            guard let lifespan = Lifespan(unixSeconds: seconds) else {
                throw refusal(
                    "\(seconds) is no expiration; write seconds since 1970, or 0 for now or never.",
                    path)
            }
            traits.lifespan = lifespan
        case Tag.priority:
            guard content.count == 1 else { throw wrongLength(field, 1, place) }
            guard let priority = MessagePriority(rawValue: content[0]) else {
                throw refusal("There is no priority \(content[0]); 1 is normal, 2 is high.", path)
            }
            traits.priority = priority
        case Tag.collapseKey:
            try checkText(content, "The collapse key", path)
            try checkLength(content.count, Limits.collapseKeyBytesMax, "collapse key", path)
            traits.collapseKey = String(decoding: content, as: UTF8.self)
            guard platform == .android || HTTPFieldText.isValue(traits.collapseKey) else {
                throw refusal(HTTPFieldText.valueFault(of: "The collapse key"), path)
            }
            traits.isKeyForNotifications = platform != .android && !content.isEmpty
        default:
            try checkText(content, "The package name", path)
            try checkLength(content.count, Limits.appNameBytesMax, "package name", path)
            traits.restrictedPackageName = String(decoding: content, as: UTF8.self)
        }
    }

    /// Checks a custom entry beside `aps`, or an entry within `aps`. The value must be JSON.
    private static func checkJSON(_ field: Field, _ place: Place) throws(MartletError) {
        let (key, value) = try checkedEntry(field, place)
        if field.tag == Tag.custom {
            guard !key.elementsEqual("aps".utf8) else {
                throw refusal(
                    "The key aps is the system's; its members have their own fields.",
                    place.path(of: field.tag))
            }
            if isReserved(key) { throw reserved(key, place, tag: field.tag) }
        }
        let json: JSONValue
        do {
            json = try JSONValue(parsing: Array(value))
        } catch {
            throw MartletError(
                .invalidArgument,
                "The value of \"\(String(decoding: key.prefix(64), as: UTF8.self))\" is not JSON: "
                    + "\(error.message).",
                field: place.path(of: field.tag), byteOffset: UInt32(error.byteOffset))
        }
        guard field.tag == Tag.aps else { return }
        let name = String(decoding: key, as: UTF8.self)
        guard name != "alert" || json.isObject else {
            throw refusal(
                "The member alert is an object here; the text of an alert is the body.",
                place.path(of: field.tag))
        }
        if let fault = AppleMember.fault(of: json, name) {
            throw refusal(fault.message, "\(place.path(of: field.tag)).\(fault.path)")
        }
    }

    private static func wrongLength(_ field: Field, _ bytes: Int, _ place: Place) -> MartletError {
        refusal(
            "The field of tag \(field.tag) has \(field.content.count) bytes; it takes \(bytes).",
            place.path(of: field.tag))
    }
}
