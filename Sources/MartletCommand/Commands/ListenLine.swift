// SPDX-License-Identifier: Apache-2.0
//
// The output of `martlet listen` for a message, for machines and for people. Rests on MartletClient.

import Martlet
import MartletAnswers
import MartletClient

/// A message as a line of JSON.
struct ListenLine: Encodable {
    struct Notification: Encodable {
        var title: String?
        var body: String?
        var image: String?
    }

    var event = "message"
    var messageID: String
    var streamID: UInt64
    var stored: Bool
    var from: String
    var priority: String
    var accepted: Int64
    var expires: Int64
    var wantsReceipts: Bool
    var notification: Notification?
    var data: [String: String]
    /// MSG-11: opaque content, in base64url.
    var opaque: String?
    /// The sender's options for this platform.
    var options: [String: String]?
    /// The dictionary of an Apple application, as JSON text.
    var apns: String?

    init(_ message: IncomingMessage, platform: Platform) {
        messageID = message.messageID
        streamID = message.streamID
        stored = message.isStored
        from = message.from
        priority = message.priority == .high ? "high" : "normal"
        accepted = message.accepted.millisecondsSince1970
        expires = message.expires.millisecondsSince1970
        wantsReceipts = message.wantsReceipts
        notification = message.notification.map {
            Notification(title: $0.title, body: $0.body, image: $0.image)
        }
        data = Dictionary(message.data.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
        opaque = message.opaque.map { Base64URL.encode($0) }
        if !message.options.isEmpty {
            options = Dictionary(
                message.options.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
        }
        apns = platform == .apple ? message.apns.text : nil
    }

    static func text(_ message: IncomingMessage, platform: Platform) -> String {
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
