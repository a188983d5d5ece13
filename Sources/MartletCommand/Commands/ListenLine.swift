// SPDX-License-Identifier: Apache-2.0
//
// The output of `martlet listen` for a message, for machines and for people. Rests on MartletClient.

import Martlet
import MartletAnswers
import MartletClient

/// A message as a line of JSON, or as text.
enum ListenLine {
    static func json(_ message: IncomingMessage, platform: Platform) -> String {
        var line: JSONObject = [
            "event": .string("message"),
            "messageID": .string(message.messageID),
            "streamID": .integer(Int64(clamping: message.streamID)),
            "stored": .bool(message.isStored),
            "from": .string(message.from),
            "priority": .string(message.priority == .high ? "high" : "normal"),
            "accepted": .integer(message.accepted.millisecondsSince1970),
            "expires": .integer(message.expires.millisecondsSince1970),
            "wantsReceipts": .bool(message.wantsReceipts),
            "data": .object(JSONObject(message.data)),
        ]
        if let notification = message.notification {
            var shown = JSONObject()
            shown["title"] = notification.title.map { .string($0) }
            shown["body"] = notification.body.map { .string($0) }
            shown["image"] = notification.image.map { .string($0) }
            line["notification"] = .object(shown)
        }
        // MSG-11: opaque content.
        line["opaque"] = message.opaque.map { .string(Base64URL.encode($0)) }
        // The sender's options for this platform.
        if !message.options.isEmpty { line["options"] = .object(JSONObject(message.options)) }
        // The dictionary of an Apple application is a text with JSON in it.
        if platform == .apple { line["apns"] = .string(message.apns.text) }
        return JSONValue.object(line).text
    }

    /// - Parameter note: what the run says of the message (`ListenNotes`).
    static func text(_ message: IncomingMessage, platform: Platform, note: String?) -> String {
        var head = "\(message.accepted.iso8601)  from \(message.from.withoutControls)"
        if message.priority == .high { head += "  high" }
        head += message.isStored ? "  expires \(message.expires.iso8601)" : "  now or never"
        var lines = ["\(head)  \(message.messageID)"]
        if let notification = message.notification {
            if let title = notification.title { lines.append("  title  " + title.withoutControls) }
            if let body = notification.body { lines.append("  body   " + body.withoutControls) }
            if let image = notification.image { lines.append("  image  " + image.withoutControls) }
        }
        for entry in message.data {
            lines.append("  data   \(entry.key.withoutControls) = \(entry.value.withoutControls)")
        }
        for entry in message.options {
            lines.append("  option \(entry.key.withoutControls) = \(entry.value.withoutControls)")
        }
        if platform == .apple { lines.append("  apns   " + message.apns.text.withoutControls) }
        if let note { lines.append("  note   " + note) }
        return lines.joined(separator: "\n")
    }
}

/// STO-1, STO-2: a notice of discarded stored messages.
struct DeletedLine: Encodable {
    var event = "deleted"
    var count: UInt64
    var streamID: UInt64

    init(_ deleted: DeletedMessages) {
        count = deleted.count
        streamID = deleted.streamID
    }

    static func text(_ deleted: DeletedMessages) -> String {
        deleted.count == 1
            ? "1 stored message was discarded." : "\(deleted.count) stored messages were discarded."
    }
}
