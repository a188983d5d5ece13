// SPDX-License-Identifier: Apache-2.0
//
// The body of `/fcm/send` (GW-4). The body has one notification, and each platform has its own place for the
// notification's fields. Unknown fields are ignored, as the interface always did. Rests on RequestField.

import Martlet

package struct LegacyRequest {
    /// Kinds of recipients; the form of the answer depends on the kind.
    enum Recipients {
        /// A token or the key of a group.
        case one
        case tokens([String])
        /// A topic or a condition.
        case many
    }

    var recipients: Recipients
    package var message: OutgoingMessage

    package init(body: [UInt8]) throws(GatewayError) {
        try self.init(fields: try RequestObject(body: body))
    }

    /// Reads a form, the interface's first notation: `registration_id=…&data.KEY=…`.
    package init(form body: [UInt8]) throws(GatewayError) {
        guard let text = String(validating: body, as: UTF8.self),
            let pairs = PercentEncoding.form(text[...])
        else {
            throw GatewayError(
                .invalidArgument, "The form has a broken escape, or is not UTF-8.", violations: [])
        }
        var members = JSONObject()
        var parts: [String: JSONObject] = [:]
        for (name, value) in pairs {
            let words = name.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            switch name {
            case _ where words.count == 2 && ["data", "notification"].contains(words[0]):
                parts[String(words[0]), default: JSONObject()][String(words[1])] = .string(value)
            case "registration_id": members["to"] = .string(value)
            case "dry_run", "content_available", "mutable_content":
                members[name] = .bool(["true", "1"].contains(value))
            default: members[name] = .string(value)
            }
        }
        for (name, part) in parts { members[name] = .object(part) }
        try self.init(fields: RequestObject(members: members, path: ""))
    }

    package init(fields: RequestObject) throws(GatewayError) {
        var fields = fields
        (recipients, message) = try Self.target(&fields)
        message.timeToLiveSeconds = try Self.timeToLive(&fields)
        message.collapseKey = try fields.take("collapse_key")?.text()
        message.restrictedPackageName = try fields.take("restricted_package_name")?.text()
        message.validateOnly = try fields.take("dry_run")?.flag() ?? false
        let shown = try fields.take("notification")
        message.priority = try Self.priority(&fields) ?? (shown == nil ? nil : .high)
        if let data = try fields.take("data") {
            var members = try data.members()
            message.message.data = members.rest().map {
                .init(key: $0.name, value: $0.field.value.plainText)
            }
        }
        if let shown { try take(notification: shown) }
        try takeAppleFlags(&fields)
    }

    private static func target(
        _ fields: inout RequestObject
    ) throws(GatewayError) -> (Recipients, OutgoingMessage) {
        let to = try fields.take("to")?.text()
        let condition = try fields.take("condition")?.text()
        let list = try fields.take("registration_ids")
        guard [to != nil, condition != nil, list != nil].count(where: { $0 }) <= 1 else {
            throw GatewayError.invalid(
                "A message has one of to, registration_ids and condition.", field: "to")
        }
        if let list {
            var tokens: [String] = []
            for element in try list.elements() { tokens.append(try element.text()) }
            guard (1...tokensMax).contains(tokens.count) else {
                throw list.refusal(
                    "Number of messages on bulk (\(tokens.count)) is not 1 to \(tokensMax).")
            }
            return (
                .tokens(tokens),
                OutgoingMessage(to: .several(tokens.map { .token($0) }), Message())
            )
        }
        if let condition { return (.many, OutgoingMessage(to: .condition(condition), Message())) }
        guard let to else {
            throw GatewayError.invalid("MissingRegistration: the field to is missing.", field: "to")
        }
        return to.hasPrefix("/topics/")
            ? (.many, OutgoingMessage(to: .topic(to), Message()))
            : (.one, OutgoingMessage(to: .token(to), Message()))
    }

    /// Most tokens in a request.
    private static let tokensMax = 1000

    private static func timeToLive(
        _ fields: inout RequestObject
    ) throws(GatewayError) -> UInt32? {
        guard let field = try fields.take("time_to_live") else { return nil }
        let seconds = try field.integer()
        guard seconds >= 0 else {
            throw field.refusal(
                "InvalidTtl: Invalid value (\(seconds)) for \"time_to_live\": must be 0 or more.")
        }
        // The broker refuses a time above the project's longest.
        return UInt32(clamping: seconds)
    }

    private static func priority(
        _ fields: inout RequestObject
    ) throws(GatewayError) -> MessagePriority? {
        guard let field = try fields.take("priority") else { return nil }
        switch try field.text().lowercased() {
        case "normal": return .normal
        case "high": return .high
        default: throw field.refusal("The priority is normal or high.")
        }
    }

    /// MSG-5: reads the notification's look for Android and the web, and badge, sound and localisation keys for
    /// Apple.
    private mutating func take(notification field: RequestField) throws(GatewayError) {
        var fields = try field.members()
        message.message.notification = try fields.takeTexts()
        var android = Message.Android()
        var apple = Message.ApplePayload()
        var web = Message.WebPush()
        var alert = JSONObject()
        if let badge = try fields.take("badge") {
            guard let number = UInt32(exactly: try badge.integer()) else {
                throw badge.refusal("The badge is a number from 0 on.")
            }
            apple.badge = number
        }
        apple.subtitle = try fields.take("subtitle")?.text()
        for (name, field) in fields.rest() {
            let text = field.value.plainText
            switch name {
            case "sound": apple.sound = text
            case "click_action":
                apple.category = text
                web.options.append(.init(key: "link", value: text))
            case "icon": web.options.append(.init(key: name, value: text))
            case "title_loc_key", "body_loc_key", "title_loc_args", "body_loc_args":
                let key = name.replacing("body_", with: "").replacing("_", with: "-")
                let isList = name.hasSuffix("args")
                alert[key] = (isList ? try? JSONValue(parsing: text) : nil) ?? .string(text)
            default: break
            }
            android.options.append(
                .init(key: name == "android_channel_id" ? "channel_id" : name, value: text))
        }
        if !alert.isEmpty {
            apple.aps = [.init(key: "alert", value: JSONValue.object(alert).text)]
        }
        if android != .init() { message.message.android = android }
        if apple != .init() { message.message.apns = .init(payload: apple) }
        if web != .init() { message.message.webpush = web }
    }

    private mutating func takeAppleFlags(_ fields: inout RequestObject) throws(GatewayError) {
        let wakes = try fields.take("content_available")?.flag() ?? false
        let changes = try fields.take("mutable_content")?.flag() ?? false
        guard wakes || changes else { return }
        var apns = message.message.apns ?? .init()
        apns.payload.contentAvailable = wakes
        apns.payload.mutableContent = changes
        message.message.apns = apns
    }
}
