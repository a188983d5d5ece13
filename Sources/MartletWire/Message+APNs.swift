// SPDX-License-Identifier: Apache-2.0
//
// Builds the dictionary that an Apple app expects from the message for an Apple instance (MSG-5). The client's library shows
// it to the application, and the bridge sends it to Apple. Rests on JSONValue.

public import MartletBase

extension Message {
    /// MSG-5: `aps` with the notification, and beside `aps` the data and the sender's custom keys. A custom value that
    /// is not JSON is left out; the broker accepts only JSON there.
    public static func appleDictionary(
        _ notification: Notification?, _ data: [DataEntry], _ payload: ApplePayload
    ) -> JSONValue {
        var aps = JSONObject()
        var alert = JSONObject()
        alert["title"] = notification?.title.map { .string($0) }
        alert["subtitle"] = payload.subtitle.map { .string($0) }
        alert["body"] = notification?.body.map { .string($0) }
        if !alert.isEmpty { aps["alert"] = .object(alert) }
        aps["badge"] = payload.badge.map { .integer(Int64($0)) }
        aps["sound"] = payload.sound.map { .string($0) }
        aps["category"] = payload.category.map { .string($0) }
        aps["thread-id"] = payload.threadID.map { .string($0) }
        if payload.contentAvailable { aps["content-available"] = .integer(1) }
        if payload.mutableContent { aps["mutable-content"] = .integer(1) }
        for entry in payload.aps {
            guard let value = try? JSONValue(parsing: entry.value) else { continue }
            if entry.key == "alert", case .object(var members) = value {
                members.merge(alert)
                aps["alert"] = .object(members)
            } else {
                aps[entry.key] = value
            }
        }
        var dictionary = JSONObject()
        for entry in data { dictionary[entry.key] = .string(entry.value) }
        for entry in payload.custom {
            if let value = try? JSONValue(parsing: entry.value) { dictionary[entry.key] = value }
        }
        dictionary["aps"] = .object(aps)
        return .object(dictionary)
    }

    /// COL-1: the collapse key that the sender gave in the block of the instance's platform (`apns-collapse-id`, the
    /// header `Topic`) or for the whole message, in the message that the instance gets. Devices skip the field, because the
    /// broker collapses; a foreign push service collapses by it too.
    package static func deliveredCollapseKey(in bytes: [UInt8]) -> String? {
        delivered(Tag.collapseKey, in: bytes) { content in
            content.isEmpty ? nil : try? WireReader.text(content, at: 0)
        }
    }

    /// TTL-1: the `apns-expiration` that the sender gave, in seconds since 1970. The broker may store the message for a
    /// shorter time.
    package static func deliveredExpiration(in bytes: [UInt8]) -> Int64? {
        delivered(Tag.expiration, in: bytes) { content in
            var reader = WireReader(content)
            return try? reader.i64()
        }
    }

    private static func delivered<Value>(
        _ tag: UInt8, in bytes: [UInt8], _ read: (UnsafeRawBufferPointer) -> Value?
    ) -> Value? {
        bytes.span.bytes.withUnsafeBytes { memory in
            var fields = Fields(memory)
            while let field = try? fields.next() {
                if field.tag == tag { return read(field.content) }
            }
            return nil
        }
    }
}
