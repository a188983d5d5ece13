// SPDX-License-Identifier: Apache-2.0
//
// Translates `ApnsConfig` of v1 into Martlet's block for Apple's platforms. The payload is free: a member without a
// Martlet field, or of another type than the field, goes to the device unchanged. Rests on RequestField.

import Martlet

extension Message.APNS {
    /// Reads `message.apns`.
    init(_ field: RequestField) throws(GatewayError) {
        self.init()
        var fields = try field.object("ApnsConfig")
        if let field = try fields.take("headers") {
            var headers = try field.headers("ApnsConfig.HeadersEntry")
            try take(headers: &headers)
        }
        if let field = try fields.take("payload") {
            var members = try field.members()
            let aps = try members.take("aps")
            if let aps {
                var aps = try aps.members()
                try take(aps: &aps)
            }
            guard aps != nil || mayLackAps else {
                throw RequestField(value: .null, path: "\(field.path).aps")
                    .refusal("A payload for Apple has the dictionary aps.")
            }
            payload.custom = members.rest().map {
                .init(key: $0.name, value: $0.field.value.text)
            }
        }
        if let field = try fields.take("fcm_options") {
            var apple = try field.object("ApnsFcmOptions")
            try takeImage(&apple)
            if let label = try apple.takeLabel() {
                options.append(.init(key: Message.labelOption, value: label))
            }
            try apple.finish()
        }
        try takeActivityToken(&fields)
        try fields.finish()
    }

    /// Longest `apns-collapse-id`, in bytes. Source: Apple's "Sending notification requests to APNs".
    private static let collapseIDBytesMax = 64

    /// Reads the headers with a meaning in Martlet. Other headers are for Apple's servers; they become options, for the
    /// bridge to Apple, and for a recipient that passes the message on.
    private mutating func take(headers: inout RequestObject) throws(GatewayError) {
        if let field = headers.takeHeader("apns-expiration") {
            expirationSeconds = try field.converted(
                Self.expirationSeconds, else: "apns-expiration takes seconds since 1970, or 0.")
        }
        if let field = headers.takeHeader("apns-priority") {
            try take(priority: field)
        }
        if let field = headers.takeHeader("apns-collapse-id") {
            let text = try field.headerValue("apns-collapse-id")
            guard text.utf8.count <= Self.collapseIDBytesMax else {
                throw field.refusal(
                    "apns-collapse-id has at most \(Self.collapseIDBytesMax) bytes.")
            }
            collapseID = text
        }
        try take(furtherHeaders: headers.rest())
    }

    private mutating func take(aps members: inout RequestObject) throws(GatewayError) {
        var rest = JSONObject()
        for (name, field) in members.rest() {
            // Some libraries write whole numbers as 5.0.
            switch (name, field.value.wholeNumber.map(JSONValue.integer) ?? field.value) {
            case ("alert", .string(let text)): notification = .init(body: text)
            case ("alert", .object):
                var alert = try field.members()
                rest[name] = try take(alert: alert.rest())
            case ("badge", .integer(let number)) where UInt32(exactly: number) != nil:
                payload.badge = UInt32(exactly: number)
            case ("sound", .string(let text)): payload.sound = text
            case ("category", .string(let text)): payload.category = text
            case ("thread-id", .string(let text)): payload.threadID = text
            case ("content-available", .integer(1)), ("content-available", .bool(true)):
                payload.contentAvailable = true
            case ("mutable-content", .integer(1)), ("mutable-content", .bool(true)):
                payload.mutableContent = true
            case ("content-available", .integer(0)), ("content-available", .bool(false)),
                ("mutable-content", .integer(0)), ("mutable-content", .bool(false)),
                (_, .null):
                break
            case ("alert", _): throw field.mistyped("TYPE_STRING")
            default: rest[name] = field.value
            }
        }
        payload.aps = rest.map { .init(key: $0.key, value: $0.value.text) }
    }

    /// Reads an alert's title, subtitle and body.
    /// - Returns: an object with the alert's other members; nil without other members.
    private mutating func take(
        alert members: [(name: String, field: RequestField)]
    ) throws(GatewayError) -> JSONValue? {
        var rest = JSONObject()
        var shown = Message.Notification()
        for (name, field) in members {
            switch (name, field.value) {
            case ("title", .string(let text)): shown.title = text
            case ("subtitle", .string(let text)): payload.subtitle = text
            case ("body", .string(let text)): shown.body = text
            case (_, .null): break
            default: rest[name] = field.value
            }
        }
        if shown != .init() { notification = shown }
        for (name, field) in members where name.hasSuffix("loc-args") {
            let key = name.dropLast("args".count) + "key"
            guard field.value == .array([]) || field.value == .null || rest[String(key)] != nil
            else { throw field.refusal("\(name) needs \(key), the text that they go into.") }
        }
        return rest.isEmpty ? nil : .object(rest)
    }
}
