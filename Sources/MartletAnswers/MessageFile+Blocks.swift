// SPDX-License-Identifier: Apache-2.0
//
// The blocks of a message file, in each platform's own terms (MSG-5, TTL-1, PRI-1, COL-1). Rests on
// JSONFields and SharedFields.

package import Martlet

extension Message.Android {
    package init(_ block: JSONField) throws(MartletError) {
        self.init()
        var fields = try block.fields()
        if let field = fields.take("ttl") {
            timeToLiveSeconds = try field.converted(
                { Lifespan(androidDuration: $0)?.seconds },
                else: "It takes seconds up to 28 days, such as \"4500s\" or \"3.5s\".")
        }
        if let field = fields.take("priority") {
            switch try field.text().lowercased() {
            case "normal": priority = .normal
            case "high": priority = .high
            default: throw field.refusal("It takes \"normal\" or \"high\".")
            }
        }
        try takeKeys(&fields)
        if let field = fields.take("notification") {
            var shown = try field.fields()
            notification = try shown.takeTexts()
            options = shown.options()
        }
        try fields.finish(among: [
            "ttl", "priority", "collapse_key", "restricted_package_name", "data", "notification",
        ])
    }
}

extension Message.APNS {
    package init(_ block: JSONField) throws(MartletError) {
        self.init()
        var fields = try block.fields()
        if let field = fields.take("headers") {
            var headers = try field.fields()
            if let field = headers.take("apns-expiration") {
                expirationSeconds = try field.converted(
                    Self.expirationSeconds,
                    else: "It takes seconds since 1970 in quotes, or \"0\" for now or never.")
            }
            if let field = headers.take("apns-priority") { try take(priority: field) }
            collapseID = try headers.take("apns-collapse-id")?.headerValue("apns-collapse-id")
            for name in Self.furtherHeaders {
                guard let field = headers.take(name) else { continue }
                try take(furtherHeaders: [(name, field)])
            }
            try headers.finish(
                among: ["apns-expiration", "apns-priority", "apns-collapse-id"]
                    + Self.furtherHeaders)
        }
        try takeActivityToken(&fields)
        if let field = fields.take("payload") { try read(payload: field) }
        if let field = fields.take("fcm_options") {
            var options = try field.fields()
            try takeImage(&options)
            try options.finish(among: ["image"])
        }
        try fields.finish(among: ["headers", "payload", "fcm_options", "live_activity_token"])
    }

    private mutating func read(payload field: JSONField) throws(MartletError) {
        var members = try field.fields()
        let aps = members.take("aps")
        guard aps != nil || mayLackAps else {
            throw JSONField(value: .null, path: "\(field.path).aps")
                .refusal("A payload for Apple has the dictionary aps.")
        }
        if let field = aps {
            var aps = try field.fields()
            if let alert = aps.take("alert") { try read(alert: alert) }
            payload.badge = try aps.take("badge")?.number()
            payload.sound = try aps.take("sound")?.text()
            payload.category = try aps.take("category")?.text()
            payload.threadID = try aps.take("thread-id")?.text()
            payload.contentAvailable = try aps.take("content-available")?.mark() ?? false
            payload.mutableContent = try aps.take("mutable-content")?.mark() ?? false
            for name in Self.documentedMembers {
                guard let member = aps.take(name) else { continue }
                payload.aps.append(.init(key: name, value: member.value.text))
            }
            try aps.finish(among: Self.documentedMembers)
        }
        payload.custom = members.rest().map { .init(key: $0.name, value: $0.field.value.text) }
    }

    private mutating func read(alert field: JSONField) throws(MartletError) {
        if let text = field.value.string {
            notification = .init(body: text)
            return
        }
        var alert = try field.fields()
        let shown = Message.Notification(
            title: try alert.take("title")?.text(), body: try alert.take("body")?.text())
        if shown != .init() { notification = shown }
        payload.subtitle = try alert.take("subtitle")?.text()
        try alert.finish(among: ["title", "subtitle", "body"])
    }
}

extension Message.WebPush {
    package init(_ block: JSONField) throws(MartletError) {
        self.init()
        var fields = try block.fields()
        if let field = fields.take("headers") {
            var headers = try field.fields()
            if let field = headers.take("TTL") {
                timeToLiveSeconds = try field.converted(
                    { Lifespan(webTTL: $0)?.seconds },
                    else: "It takes seconds up to 28 days in quotes.")
            }
            if let field = headers.take("Urgency") {
                priority = try field.converted(
                    MessagePriority.init(webUrgency:),
                    else: "It takes \"very-low\", \"low\", \"normal\" or \"high\".")
            }
            topic = try headers.take("Topic")?.headerValue("Topic")
            try headers.finish(among: ["TTL", "Urgency", "Topic"])
        }
        if let field = fields.take("data") { data = try field.entries() }
        if let field = fields.take("notification") {
            var shown = try field.fields()
            notification = try shown.takeTexts()
            options = shown.options()
        }
        if let field = fields.take("fcm_options") {
            var links = try field.fields()
            if let link = try links.take("link")?.text() {
                options.append(.init(key: "link", value: link))
            }
            try links.finish(among: ["link"])
        }
        try fields.finish(among: ["headers", "data", "notification", "fcm_options"])
    }
}
