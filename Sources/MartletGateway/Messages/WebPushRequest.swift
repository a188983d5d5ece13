// SPDX-License-Identifier: Apache-2.0
//
// Translates `WebpushConfig` of v1 into Martlet's block for the web. Beside title, body and image, the members of the
// notification are free. Rests on RequestField.

import Martlet

extension Message.WebPush {
    /// Reads `message.webpush`.
    init(_ field: RequestField) throws(GatewayError) {
        self.init()
        var fields = try field.object("WebpushConfig")
        if let field = try fields.take("headers") {
            var headers = try field.headers("WebpushConfig.HeadersEntry")
            try take(headers: &headers)
        }
        data = try fields.take("data")?.entries() ?? []
        var shown = JSONObject()
        if let field = try fields.take("notification") {
            var members = try field.members()
            notification = try members.takeTexts()
            for (name, field) in members.rest() where field.value != .null {
                shown[name] = field.value
            }
        }
        if let field = try fields.take("fcm_options") {
            var links = try field.object("WebpushFcmOptions")
            if let field = try links.take("link") {
                let link = try field.text()
                guard link.isEmpty || link.lowercased().hasPrefix("https://") else {
                    throw field.refusal("A link begins with https://.")
                }
                shown["link"] = .string(link)
            }
            if let label = try links.takeLabel() { shown[Message.labelOption] = .string(label) }
            try links.finish()
        }
        options = shown.map { .init(key: $0.key, value: $0.value.plainText) }
        try fields.finish()
    }

    /// Reads the headers with a meaning in Martlet. Other headers are for a push service, and reach no device of
    /// Martlet.
    private mutating func take(headers: inout RequestObject) throws(GatewayError) {
        if let field = headers.takeHeader("TTL") {
            timeToLiveSeconds = try field.converted(
                { Lifespan(webTTL: $0)?.seconds }, else: "TTL must be a non-negative integer.")
        }
        if let field = headers.takeHeader("Urgency") {
            priority = try field.converted(
                { MessagePriority(webUrgency: $0.lowercased()) },
                else: "Urgency must be very-low, low, normal or high.")
        }
        topic = try headers.takeHeader("Topic")?.headerValue("Topic")
        for (name, field) in headers.rest() { _ = try field.headerValue(name) }
    }
}
