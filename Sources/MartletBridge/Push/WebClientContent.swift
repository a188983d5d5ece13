// SPDX-License-Identifier: Apache-2.0
//
// Writes a message the way FCM's web SDK reads it in a page's worker: an object with the notification, the data and the
// sender, which is then encrypted for the page. The broker keeps the members of a notification as text, so those that
// aren't text become JSON again here. Rests on MartletWire.
// Source: the web SDK's internal form of a payload; the Notifications standard (NotificationOptions).

import Martlet
package import MartletWire

/// The content of a message for a page that uses the web SDK.
package enum WebClientContent {
    /// Members of a notification whose values aren't text.
    private static let structured: Set<String> = [
        "actions", "data", "renotify", "requireInteraction", "silent", "timestamp", "vibrate",
    ]
    /// The members of `fcmOptions`.
    private static let links: Set<String> = ["link", "analytics_label"]

    /// The text to encrypt.
    /// - Parameters:
    ///   - message: the message's web variant.
    ///   - from: sender ID, or `/topics/NAME`.
    ///   - messageID: ID of the message.
    ///   - collapseKey: nil if the message isn't collapsible.
    package static func text(
        of message: Message, from: String, messageID: String, collapseKey: String?
    ) -> [UInt8] {
        var members: JSONObject = [
            "from": .string(from), "fcmMessageId": .string(messageID),
        ]
        if let collapseKey { members["collapse_key"] = .string(collapseKey) }
        if !message.data.isEmpty { members["data"] = .object(JSONObject(message.data)) }
        let shown = notification(message)
        if !shown.isEmpty { members["notification"] = .object(shown) }
        let told = message.options.filter { links.contains($0.key) }
        if !told.isEmpty { members["fcmOptions"] = .object(JSONObject(told)) }
        return Array(JSONValue.object(members).text.utf8)
    }

    private static func notification(_ message: Message) -> JSONObject {
        var shown = JSONObject()
        for option in message.options where !links.contains(option.key) {
            shown[option.key] =
                structured.contains(option.key)
                ? (try? JSONValue(parsing: option.value)) ?? .string(option.value)
                : .string(option.value)
        }
        shown["title"] = message.notification?.title.map { .string($0) }
        shown["body"] = message.notification?.body.map { .string($0) }
        shown["image"] = message.notification?.image.map { .string($0) }
        return shown
    }
}
