// SPDX-License-Identifier: Apache-2.0
//
// Reads a message from JSON, in the shape of the message object of FCM's HTTP v1 interface, in snake_case or
// lowerCamelCase. An unknown key is refused with its place, because a misspelled field must not be lost silently.
// Rests on JSONValue.

package import Martlet

package struct MessageFile {
    /// All targets in the file; a message must have exactly one (MSG-1).
    package private(set) var targets: [MessageTarget] = []
    package private(set) var message = Message()
    package private(set) var validateOnly = false

    package init(json: [UInt8]) throws(MartletError) {
        let value: JSONValue
        do {
            value = try JSONValue(document: json)
        } catch {
            throw MartletError(
                .invalidArgument, "This is no JSON (\(error.message)).", field: "file",
                byteOffset: UInt32(clamping: error.byteOffset))
        }
        try self.init(value)
    }

    /// Reads a parsed message.
    package init(_ value: JSONValue) throws(MartletError) {
        var fields = try JSONFields(value, "file")
        if let inner = fields.take("message") {
            if let flag = fields.take("validate_only") { validateOnly = try flag.flag() }
            try fields.finish(among: ["message", "validate_only"])
            fields = try JSONFields(inner.value, "message")
        } else {
            fields.path = ""
        }
        if let token = fields.take("token") { targets.append(.token(try token.text())) }
        if let topic = fields.take("topic") { targets.append(.topic(try topic.text())) }
        if let condition = fields.take("condition") {
            targets.append(.condition(try condition.text()))
        }
        if let field = fields.take("notification") {
            var texts = try field.fields()
            message.notification = try texts.takeTexts()
            try texts.finish(among: ["title", "body", "image"])
        }
        if let data = fields.take("data") { message.data = try data.entries() }
        if let block = fields.take("android") { message.android = try Message.Android(block) }
        if let block = fields.take("apns") { message.apns = try Message.APNS(block) }
        if let block = fields.take("webpush") { message.webpush = try Message.WebPush(block) }
        try fields.finish(among: [
            "token", "topic", "condition", "notification", "data", "android", "apns", "webpush",
        ])
    }
}
