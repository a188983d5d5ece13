// SPDX-License-Identifier: Apache-2.0
//
// Translates `AndroidConfig` and `AndroidConfigV2` of v1 into Martlet's block for Android. Fields for the look of a
// notification go to the device as written, under their names in snake_case. Rests on RequestField.

import Martlet

extension Message.Android {
    /// Reads `message.android`.
    init(_ field: RequestField) throws(GatewayError) {
        self.init()
        var fields = try field.object("AndroidConfig")
        if let field = try fields.take("priority") {
            let name = try field.choice("AndroidMessagePriority", ["NORMAL", "HIGH"])
            priority = name == "HIGH" ? .high : .normal
        }
        try takeShared(&fields)
        if let field = try fields.take("notification") {
            var shown = try field.object("AndroidNotification")
            try takeNotification(&shown, Self.notificationFields + Self.proxyFields)
            try shown.finish()
        }
        try fields.finish()
    }

    /// Reads `message.android_v2`.
    init(second field: RequestField) throws(GatewayError) {
        self.init()
        var fields = try field.object("AndroidConfigV2")
        try takeShared(&fields)
        if let field = try fields.take("background_sync") {
            let sync = try field.object("AndroidBackgroundSyncMessage")
            try sync.finish()
            options.append(.init(key: "background_sync", value: "true"))
        }
        if let field = try fields.take("remote_notification") {
            var remote = try field.object("AndroidRemoteNotification")
            for name in ["mutable_content", "use_as_v1_data_message"] {
                try addFlag(name, &remote)
            }
            if let field = try remote.take("notification") {
                var shown = try field.object("AndroidNotificationV2")
                if let id = try shown.take("id") {
                    options.append(.init(key: "id", value: String(try id.integer())))
                }
                try takeNotification(&shown, Self.notificationFields)
                try shown.finish()
            }
            try remote.finish()
        }
        try fields.finish()
    }

    private mutating func takeShared(_ fields: inout RequestObject) throws(GatewayError) {
        if let field = try fields.take("ttl") {
            let text = try field.text()
            if text.hasPrefix("-") { throw Self.badTimeToLive(field) }
            guard let seconds = Lifespan(androidDuration: try field.duration())?.seconds
            else { throw Self.badTimeToLive(field) }
            timeToLiveSeconds = seconds
        }
        try takeKeys(&fields)
        for name in ["direct_boot_ok", "bandwidth_constrained_ok", "restricted_satellite_ok"] {
            try addFlag(name, &fields)
        }
        if let label = try fields.takeAnalyticsLabel() {
            options.append(.init(key: Message.labelOption, value: label))
        }
    }

    private static func badTimeToLive(_ field: RequestField) -> GatewayError {
        field.refusal("TTL must be a non-negative duration, such as 3600s.")
    }

    private mutating func addFlag(
        _ name: String, _ fields: inout RequestObject
    ) throws(GatewayError) {
        guard let field = try fields.take(name) else { return }
        options.append(.init(key: name, value: try field.flag() ? "true" : "false"))
    }

    private mutating func takeNotification(
        _ fields: inout RequestObject, _ others: [(String, Reader)]
    ) throws(GatewayError) {
        notification = try fields.takeTexts()
        for (name, read) in others {
            guard let field = try fields.take(name) else { continue }
            options.append(.init(key: name, value: try read(field)))
        }
        for part in ["title", "body"] {
            let texts = options.first { $0.key == part + "_loc_args" }?.value ?? "[]"
            guard texts == "[]" || options.contains(where: { $0.key == part + "_loc_key" }) else {
                throw RequestField(value: .null, path: "\(fields.path).\(part)_loc_args")
                    .refusal("\(part)_loc_args needs \(part)_loc_key, the text that they go into.")
            }
        }
    }

    private typealias Reader = @Sendable (RequestField) throws(GatewayError) -> String

    /// Fields of a notification beside title, body and image, each with the reader that checks the value.
    private static let notificationFields: [(String, Reader)] = [
        ("icon", text), ("color", color), ("sound", text), ("tag", text), ("click_action", text),
        ("body_loc_key", text), ("body_loc_args", texts), ("title_loc_key", text),
        ("title_loc_args", texts), ("channel_id", text), ("ticker", text), ("sticky", flag),
        ("event_time", instant), ("local_only", flag),
        ("notification_priority", notificationPriority),
        ("default_sound", flag), ("default_vibrate_timings", flag),
        ("default_light_settings", flag), ("vibrate_timings", durations),
        ("visibility", visibility), ("notification_count", count),
        ("light_settings", lightSettings),
    ]

    /// Fields of `AndroidNotification` that `AndroidNotificationV2` lacks.
    private static let proxyFields: [(String, Reader)] = [
        ("bypass_proxy_notification", flag), ("proxy", proxy),
    ]

    private static let text: Reader = { (field) throws(GatewayError) in try field.text() }
    private static let color: Reader = { (field) throws(GatewayError) in
        let text = try field.text()
        guard text.wholeMatch(of: #/#[0-9A-Fa-f]{6}/#) != nil else {
            throw field.refusal("A color is written #rrggbb.")
        }
        return text
    }
    private static let flag: Reader = { (field) throws(GatewayError) in
        try field.flag() ? "true" : "false"
    }
    private static let count: Reader = { (field) throws(GatewayError) in
        String(try field.integer())
    }
    private static let texts: Reader = { (field) throws(GatewayError) in
        for element in try field.elements() { _ = try element.text() }
        return field.value.text
    }
    private static let durations: Reader = { (field) throws(GatewayError) in
        for element in try field.elements() { _ = try element.duration() }
        return field.value.text
    }
    private static let notificationPriority: Reader = { (field) throws(GatewayError) in
        try field.choice(
            "AndroidNotification.NotificationPriority",
            ["UNSPECIFIED", "MIN", "LOW", "DEFAULT", "HIGH", "MAX"].map { "PRIORITY_" + $0 },
            prefix: "PRIORITY_")
    }
    private static let visibility: Reader = { (field) throws(GatewayError) in
        try field.choice(
            "AndroidNotification.Visibility",
            ["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"])
    }
    private static let proxy: Reader = { (field) throws(GatewayError) in
        try field.choice(
            "AndroidNotification.Proxy",
            ["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"])
    }

    /// Checks an instant. Source: RFC 3339, with at most nine fractional digits of a second.
    private static let instant: Reader = { (field) throws(GatewayError) in
        let text = try field.text()
        let pattern =
            #/(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?(?:Z|[+-](\d\d):(\d\d))/#
        guard let parts = text.wholeMatch(of: pattern)?.output,
            let year = Int(parts.1), let month = Int(parts.2), let day = Int(parts.3),
            (1...12).contains(month), (1...days(ofMonth: month, year)).contains(day),
            parts.4 < "24", parts.5 < "60", parts.6 < "60", parts.7 ?? "00" < "24",
            parts.8 ?? "00" < "60"
        else {
            throw field.mistyped("type.googleapis.com/google.protobuf.Timestamp")
        }
        return text
    }

    private static func days(ofMonth month: Int, _ year: Int) -> Int {
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    }

    private static let lightSettings: Reader = { (field) throws(GatewayError) in
        var fields = try field.object("LightSettings")
        var settings = JSONObject()
        for name in ["light_on_duration", "light_off_duration"] {
            settings[name] = try fields.take(name).map { (field) throws(GatewayError) in
                .string(try field.duration())
            }
        }
        if let field = try fields.take("color") {
            var parts = try field.object("Color")
            var color = JSONObject()
            for name in ["red", "green", "blue", "alpha"] {
                color[name] = try parts.take(name).map { (part) throws(GatewayError) in
                    .number(JSONNumber(try part.fraction()))
                }
            }
            try parts.finish()
            settings["color"] = .object(color)
        }
        try fields.finish()
        return JSONValue.object(settings).text
    }
}
