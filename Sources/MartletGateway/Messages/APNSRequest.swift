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
            if let aps = try members.take("aps") {
                var aps = try aps.members()
                try take(aps: &aps)
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
        if let token = try fields.take("live_activity_token")?.text() {
            options.append(.init(key: "live_activity_token", value: token))
        }
        try fields.finish()
    }

    /// Longest `apns-collapse-id`, in bytes. Source: Apple's "Sending notification requests to APNs".
    private static let collapseIDBytesMax = 64

    /// Reads the headers with a meaning in Martlet. Other headers are for Apple's servers; they become options, for a
    /// recipient that passes the message on to Apple.
    private mutating func take(headers: inout RequestObject) throws(GatewayError) {
        if let field = headers.takeHeader("apns-expiration") {
            expirationSeconds = try field.converted(
                Self.expirationSeconds, else: "apns-expiration takes seconds since 1970, or 0.")
        }
        if let field = headers.takeHeader("apns-priority") {
            switch try field.text() {
            case "1", "5": priority = .normal
            case "10": priority = .high
            default: throw field.refusal("apns-priority is 10, 5 or 1.")
            }
        }
        if let field = headers.takeHeader("apns-collapse-id") {
            let text = try field.text()
            guard text.utf8.count <= Self.collapseIDBytesMax else {
                throw field.refusal(
                    "apns-collapse-id has at most \(Self.collapseIDBytesMax) bytes.")
            }
            collapseID = text
        }
        for (name, field) in headers.rest() {
            options.append(.init(key: name, value: try field.text()))
        }
    }

    private mutating func take(aps members: inout RequestObject) throws(GatewayError) {
        var rest = JSONObject()
        for (name, field) in members.rest() {
            switch (name, field.value) {
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
