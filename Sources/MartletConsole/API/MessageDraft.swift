// SPDX-License-Identifier: Apache-2.0
//
// A message as the composer hands it over: what `martlet send --file` takes, a target of any kind, and the options of
// `martlet send`. Rests on MessageFile.

import Martlet
import MartletAnswers

/// A composed message.
struct MessageDraft {
    let outgoing: OutgoingMessage
    /// The target for the log of actions.
    let about: String

    static let fields: [ConsoleRoute.Field] = [
        .init(
            "target", .object, isRequired: true,
            "`{\"kind\": \"topic\", \"text\": \"tides\"}`; kinds: token, topic, condition, group, "
                + "app (all instances of an app) and everyone.",
            shape: .named(
                "Target",
                .object([
                    "kind": .words(["token", "topic", "condition", "group", "app", "everyone"]),
                    "text?": .string,
                ]))),
        .init(
            "message", .object, isRequired: true,
            "The message as in FCM's HTTP v1 interface, without a target: notification, data, "
                + "android, apns, webpush.",
            shape: .named(
                "Message",
                .object([
                    "notification?": .object([
                        "title?": .string, "body?": .string, "image?": .string,
                    ]), "data?": .map(.string), "android?": .anything, "apns?": .anything,
                    "webpush?": .anything,
                ]))),
        .init("timeToLiveSeconds", .integer, "Seconds for which the message is of interest."),
        .init(
            "priority", .string, "`normal` or `high`.", shape: .words(["normal", "high"])),
        .init("collapseKey", .string, "Replaces a stored message with an equal key."),
        .init("restrictedPackageName", .string, "Only to instances of this app."),
        .init("sendAt", .integer, "Milliseconds since 1970; without it, now."),
        .init("notReceived", .string, "Only to those that have not got this earlier message."),
        .init(
            "idempotencyKey", .string, "Sends once, however often the request comes in 24 hours."),
        .init("wantsReceipts", .boolean, "Keep what becomes of the message for receipts."),
        .init("validateOnly", .boolean, "Check everything and send nothing."),
    ]

    init(from call: inout ConsoleCall) throws(MartletError) {
        guard let field = call.fields.take("target") else {
            throw MartletError(
                .invalidArgument, "The message has no target. Choose whom it is for.",
                field: "target")
        }
        var members = try field.fields()
        let kind = try members.take("kind")?.text() ?? ""
        let text = try members.take("text")?.text() ?? ""
        try members.finish(among: ["kind", "text"])
        // An audience of everyone has no text: a free text would stand in the log of actions.
        guard kind != "everyone" || text.isEmpty else {
            throw MartletError(
                .invalidArgument, "The target everyone has no text.", field: "target.text")
        }
        about = text.isEmpty ? kind : "\(kind) \(text)"
        let message = try Self.message(call.fields.take("message"))
        var outgoing = OutgoingMessage(to: try Self.target(kind, text), message)
        outgoing.timeToLiveSeconds = try call.number(inBody: "timeToLiveSeconds").map {
            UInt32(clamping: $0)
        }
        outgoing.priority = try call.text(ifThere: "priority").map {
            (word) throws(MartletError) -> MessagePriority in
            switch word {
            case "normal": return .normal
            case "high": return .high
            default:
                throw MartletError(
                    .invalidArgument, "It takes `normal` or `high`.", field: "priority")
            }
        }
        outgoing.collapseKey = try call.text(ifThere: "collapseKey")
        outgoing.restrictedPackageName = try call.text(ifThere: "restrictedPackageName")
        if kind == "app" { outgoing.restrictedPackageName = text }
        if let field = call.fields.take("sendAt"), field.value != .null {
            guard case .integer(let milliseconds) = field.value else {
                throw field.refusal("It takes milliseconds since 1970.")
            }
            let instant = Instant(millisecondsSince1970: milliseconds)
            guard instant > call.broker.now else {
                throw field.refusal("This time is past. Choose a later one, or none to send now.")
            }
            outgoing.sendAt = instant
        }
        outgoing.notReceived = try call.text(ifThere: "notReceived")
        outgoing.idempotencyKey = try call.text(ifThere: "idempotencyKey")
        outgoing.wantsReceipts = try call.flag("wantsReceipts")
        outgoing.validateOnly = try call.flag("validateOnly")
        self.outgoing = outgoing
    }

    private static func target(
        _ kind: String, _ text: String
    ) throws(MartletError) -> MessageTarget {
        switch kind {
        case "token": return .token(text)
        case "topic": return .topic(text)
        case "condition": return .condition(text)
        case "group": return .group(text)
        // Every instance satisfies the condition. For an app, the restricted package name leaves those of the app.
        case "app", "everyone": return .condition("'all' in topics || !('all' in topics)")
        default:
            throw MartletError(
                .invalidArgument, "A target is a token, topic, condition, group, app or everyone.",
                field: "target.kind")
        }
    }

    private static func message(_ field: JSONField?) throws(MartletError) -> Message {
        guard let field, case .object = field.value else {
            throw MartletError(
                .invalidArgument, "The message is missing: it has a notification or data.",
                field: "message")
        }
        guard !isEmpty(field.value) else {
            throw MartletError(
                .invalidArgument,
                "The message is empty: give it a title, a body or data, or a part for a platform.",
                field: "message")
        }
        let file = try MessageFile(.object(["message": field.value]))
        guard file.targets.isEmpty else {
            throw MartletError(
                .invalidArgument, "The target stands beside the message, in `target`.",
                field: "message")
        }
        let count = characters(of: file.message)
        guard count <= Limits.composerCharactersMax else {
            throw MartletError(
                .invalidArgument,
                "A message of the console has at most \(Limits.composerCharactersMax) characters in "
                    + "title, body, image and data; this one has \(count).", field: "message")
        }
        return file.message
    }

    /// Whether a message is empty for a device and an app. Data with an empty value is data.
    private static func isEmpty(_ message: JSONValue) -> Bool {
        if case .object(let data)? = message["data"], !data.isEmpty { return false }
        return hasNothing(message)
    }

    private static func hasNothing(_ value: JSONValue) -> Bool {
        switch value {
        case .object(let members): members.allSatisfy { hasNothing($0.value) }
        case .array(let values): values.allSatisfy { hasNothing($0) }
        case .string(let text): text.isEmpty
        case .null: true
        default: false
        }
    }

    /// MSG-3: characters of title, body, image, and of the keys and values of data. A character is a Unicode scalar, as
    /// the composer counts while one types.
    static func characters(of message: Message) -> Int {
        let texts = [
            message.notification?.title, message.notification?.body, message.notification?.image,
        ]
        let shown = texts.reduce(0) { $0 + ($1?.unicodeScalars.count ?? 0) }
        return message.data.reduce(shown) {
            $0 + $1.key.unicodeScalars.count + $1.value.unicodeScalars.count
        }
    }
}
