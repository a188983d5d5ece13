// SPDX-License-Identifier: Apache-2.0
//
// Reads the body of `messages:send` (GW-1), a `SendMessageRequest` of v1, as a message of Martlet. Every field is
// accepted in snake_case and in lowerCamelCase. Rests on RequestField.

import Martlet

/// A v1 caller's request to send a message.
package struct MessageRequest {
    package var message: OutgoingMessage

    /// - Throws: `GatewayError` with the name of the field at fault.
    package init(body: [UInt8]) throws(GatewayError) {
        var request = try RequestObject(body: body)
        let validateOnly = try request.take("validate_only")?.flag() ?? false
        let content = try request.take("message")
        try request.finish()
        guard let content else { throw Self.noTarget }
        var fields = try content.object("Message")
        _ = try fields.take("name")?.text()
        let target = try Self.target(&fields)
        let parts = try Self.message(&fields)
        // Before a missing target: `tokens` is unknown, and its sender believes to have named a target.
        try fields.finish()
        guard let target, !target.text.isEmpty else { throw Self.noTarget }
        message = OutgoingMessage(to: target, parts, validateOnly: validateOnly)
        message.setUsualPriority()
    }

    private static let noTarget = GatewayError.invalid(
        "Recipient of the message is not set.", field: "message")

    /// MSG-1: reads the target. An installation ID (`fid`) is read like a token, because Martlet has one name for
    /// both.
    /// - Returns: nil for a message without a target.
    private static func target(
        _ fields: inout RequestObject
    ) throws(GatewayError) -> MessageTarget? {
        var target: MessageTarget?
        for name in ["token", "fid", "topic", "condition"] {
            guard let field = try fields.take(name) else { continue }
            let text = try field.text()
            guard target == nil else {
                throw GatewayError.invalid(
                    "Invalid value at 'message' (oneof), oneof field 'target' is already set. Cannot "
                        + "set '\(name)'", field: "message")
            }
            switch name {
            case "topic": target = .topic(text)
            case "condition": target = .condition(text)
            default: target = .token(text)
            }
        }
        return target
    }

    private static func message(_ fields: inout RequestObject) throws(GatewayError) -> Message {
        var message = Message()
        message.notification = try fields.takeNotification()
        message.data = try fields.take("data")?.entries() ?? []
        let label = try fields.takeAnalyticsLabel()
        if let block = try fields.take("android") {
            message.android = try Message.Android(block)
        }
        if let block = try fields.take("android_v2") {
            guard message.android == nil else {
                throw GatewayError.invalid(
                    "A message has android or android_v2, not both.", field: "message.android_v2")
            }
            message.android = try Message.Android(second: block)
        }
        if let block = try fields.take("apns") { message.apns = try Message.APNS(block) }
        if let block = try fields.take("webpush") {
            message.webpush = try Message.WebPush(block)
        }
        if let label { message.setCommonLabel(label) }
        return message
    }
}

// MARK: Common parts of blocks

extension RequestObject {
    /// Reads `notification` of the message: title, body and image.
    fileprivate mutating func takeNotification() throws(GatewayError) -> Message.Notification? {
        guard let field = try take("notification") else { return nil }
        var fields = try field.object("Notification")
        let notification = try fields.takeTexts()
        try fields.finish()
        return notification
    }

    /// Reads `fcm_options` with a label and no other field.
    mutating func takeAnalyticsLabel() throws(GatewayError) -> String? {
        guard let field = try take("fcm_options") else { return nil }
        var options = try field.object("FcmOptions")
        let label = try options.takeLabel()
        try options.finish()
        return label
    }

    mutating func takeLabel() throws(GatewayError) -> String? {
        guard let field = try take("analytics_label") else { return nil }
        let label = try field.text()
        guard (1...50).contains(label.utf8.count), label.utf8.allSatisfy(TopicName.isAllowed) else {
            throw field.refusal("An analytics label has 1 to 50 characters of [a-zA-Z0-9-_.~%].")
        }
        return label
    }
}

extension Message {
    static let labelOption = "analytics_label"

    /// Sets the label for all platforms whose block has no label.
    fileprivate mutating func setCommonLabel(_ label: String) {
        func add(to options: inout [DataEntry]) {
            guard !options.contains(where: { $0.key == Self.labelOption }) else { return }
            options.append(.init(key: Self.labelOption, value: label))
        }
        var android = android ?? Android()
        add(to: &android.options)
        self.android = android
        var apns = apns ?? APNS()
        add(to: &apns.options)
        self.apns = apns
        var webpush = webpush ?? WebPush()
        add(to: &webpush.options)
        self.webpush = webpush
    }
}

extension OutgoingMessage {
    /// PRI-1: sets the priority of a request without a priority: notifications are urgent, data is not. Source: the
    /// reference of v1, AndroidMessagePriority.
    fileprivate mutating func setUsualPriority() {
        if message.notification != nil {
            priority = .high
            return
        }
        if message.android?.isShown == true, message.android?.priority == nil {
            message.android?.priority = .high
        }
        if message.apns?.isUrgent == true, message.apns?.priority == nil {
            message.apns?.priority = .high
        }
        if message.webpush?.notification != nil, message.webpush?.priority == nil {
            message.webpush?.priority = .high
        }
    }
}

extension Message.Android {
    fileprivate var isShown: Bool {
        notification != nil
            || options.contains { $0.key == "title_loc_key" || $0.key == "body_loc_key" }
    }
}
