// SPDX-License-Identifier: Apache-2.0
//
// A message as the web SDK of the original system reads it in a page's worker: an object with the notification, the
// data and the sender, encrypted to the page's subscription. The members of a notification beside its texts came as
// texts, so members of other forms are read as JSON again. Rests on MartletWire.
// Source: the web SDK's internal form of a payload; the Notifications standard (NotificationOptions).

package import MartletWire

/// The content of a message for a page that uses the web SDK.
package enum WebClientContent {
    /// Members of a notification with other values than texts.
    private static let structured: Set<String> = [
        "actions", "data", "renotify", "requireInteraction", "silent", "timestamp", "vibrate",
    ]
    /// Options of `fcmOptions`.
    private static let links: Set<String> = ["link", "analytics_label"]

    /// The text for encryption.
    /// - Parameters:
    ///   - message: as the web variant of the message says.
    ///   - from: sender ID, or `/topics/NAME`.
    ///   - messageID: ID of the message.
    ///   - collapseKey: of the message; nil: the message is not collapsible.
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
