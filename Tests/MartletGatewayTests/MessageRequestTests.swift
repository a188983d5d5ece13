// SPDX-License-Identifier: Apache-2.0
//
// Every field of a v1 message, in both spellings, and what a device of each platform gets of it (GW-1, MSG-5). Nothing but the
// request's body and the broker's own rules. Rests on MessageRequest.

import MartletBase
import MartletGateway
import MartletWire
import Testing

/// What an instance of a platform gets, line by line; nothing: it is no recipient.
private func lines(_ body: String, for platform: Platform) throws -> [String] {
    let sent = try MessageRequest(body: Array(body.utf8)).message
    let request = try sent.request(
        correlation: 1, message: try sent.message.encoded(), projectID: "tides")
    let variants = try Message.variants(
        of: request.message, target: sent.target.kind,
        lifespan: request.timeToLiveSeconds.map { .seconds($0) } ?? .longest,
        priority: request.priority ?? .normal, collapseKey: request.collapseKey,
        restrictedPackageName: request.restrictedPackageName)
    guard let variant = variants.first(where: { $0.platforms.contains(platform) }) else {
        return []
    }
    // The collapse key of a block goes along for push services of others, and devices skip the field.
    let message = try Message(decoding: variant.body, unknownTags: .skip)
    var lines = ["lifespan \(variant.lifespan)", "priority \(variant.priority)"]
    if case .named(let key) = variant.collapse { lines.append("collapse \(key)") }
    if let package = variant.restrictedPackageName { lines.append("only \(package)") }
    if let title = message.notification?.title { lines.append("title \(title)") }
    if let body = message.notification?.body { lines.append("body \(body)") }
    if let image = message.notification?.image { lines.append("image \(image)") }
    lines += message.data.map { "data \($0.key)=\($0.value)" }
    lines += message.options.map { "option \($0.key)=\($0.value)" }
    let apple = message.applePayload
    if let subtitle = apple.subtitle { lines.append("subtitle \(subtitle)") }
    if let badge = apple.badge { lines.append("badge \(badge)") }
    if let sound = apple.sound { lines.append("sound \(sound)") }
    if let category = apple.category { lines.append("category \(category)") }
    if let thread = apple.threadID { lines.append("thread \(thread)") }
    if apple.contentAvailable { lines.append("content-available") }
    if apple.mutableContent { lines.append("mutable-content") }
    lines += apple.custom.map { "custom \($0.key)=\($0.value)" }
    lines += apple.aps.map { "aps \($0.key)=\($0.value)" }
    return lines
}

/// A field of the message by its path, with a value: names of fields in snake_case or as
/// lowerCamelCase; those in quotes in the path are no fields and stay.
private func body(_ path: String, _ value: String, camel: Bool) -> String {
    var names = path.split(separator: "/").map(String.init)
    let isTarget = ["token", "fid", "topic", "condition"].contains(names[0])
    if camel { names = names.map { $0.inCamelCase } }
    let nested = names.reversed().reduce(value) { "{\"\($1)\":\($0)}" }
    let inner = nested.dropFirst().dropLast()
    return "{\"message\":{\(isTarget ? "" : "\"token\":\"t\",")\(inner)}}"
}

/// A field, a value, the platforms that get it, and how.
private struct Case: CustomTestStringConvertible {
    var path: String
    var value: String
    var platforms: [Platform]
    var line: String

    init(_ path: String, _ value: String, _ platforms: [Platform], _ line: String) {
        self.path = path
        self.value = value
        self.platforms = platforms
        self.line = line
    }

    var testDescription: String { "\(path): \(value)" }
}

private let all = Platform.allCases

private let common = [
    Case("data", #"{"k":"v"}"#, all, "data k=v"),
    Case("notification/title", #""T""#, all, "title T"),
    Case("notification/body", #""B""#, all, "body B"),
    Case("notification/image", #""https://x/i""#, all, "image https://x/i"),
    Case("fcm_options/analytics_label", #""a-b_c.~%""#, all, "option analytics_label=a-b_c.~%"),
]

private let android = [
    Case("collapse_key", #""k""#, "collapse k"),
    Case("priority", #""high""#, "priority high"),
    Case("priority", #""HIGH""#, "priority high"),
    Case("priority", #""Normal""#, "priority normal"),
    Case("ttl", #""3.500000000s""#, "lifespan seconds(3)"),
    Case("ttl", #""0s""#, "lifespan seconds(0)"),
    Case("restricted_package_name", #""com.example""#, "only com.example"),
    Case("data", #"{"k":"v"}"#, "data k=v"),
    Case("direct_boot_ok", "true", "option direct_boot_ok=true"),
    Case("bandwidth_constrained_ok", "true", "option bandwidth_constrained_ok=true"),
    Case("restricted_satellite_ok", "false", "option restricted_satellite_ok=false"),
    Case("fcm_options/analytics_label", #""l""#, "option analytics_label=l"),
]

private let androidNotification = [
    Case("title", #""T""#, "title T"), Case("body", #""B""#, "body B"),
    Case("image", #""https://x/i""#, "image https://x/i"),
    Case("icon", #""i""#, "option icon=i"), Case("color", ##""#aabbcc""##, "option color=#aabbcc"),
    Case("sound", #""s""#, "option sound=s"), Case("tag", #""t""#, "option tag=t"),
    Case("click_action", #""OPEN""#, "option click_action=OPEN"),
    Case("body_loc_key", #""bk""#, "option body_loc_key=bk"),
    Case("title_loc_key", #""tk""#, "option title_loc_key=tk"),
    Case("channel_id", #""c""#, "option channel_id=c"),
    Case("ticker", #""tick""#, "option ticker=tick"),
    Case("sticky", "true", "option sticky=true"),
    Case("sticky", "false", "option sticky=false"),
    Case(
        "event_time", #""2026-01-02T03:04:05.000678Z""#,
        "option event_time=2026-01-02T03:04:05.000678Z"),
    Case("local_only", "true", "option local_only=true"),
    Case("notification_priority", #""PRIORITY_MAX""#, "option notification_priority=PRIORITY_MAX"),
    Case("notification_priority", #""min""#, "option notification_priority=PRIORITY_MIN"),
    Case("default_sound", "true", "option default_sound=true"),
    Case("default_vibrate_timings", "false", "option default_vibrate_timings=false"),
    Case("default_light_settings", "true", "option default_light_settings=true"),
    Case(
        "vibrate_timings", #"["0.100000000s","1s"]"#,
        #"option vibrate_timings=["0.100000000s","1s"]"#),
    Case("visibility", #""secret""#, "option visibility=SECRET"),
    Case("notification_count", "7", "option notification_count=7"),
    Case("notification_count", #""7""#, "option notification_count=7"),
    Case(
        "light_settings", #"{"light_on_duration":"1s","color":{"red":0.5,"green":0}}"#,
        #"option light_settings={"color":{"green":0.0,"red":0.5},"light_on_duration":"1s"}"#),
    Case(
        "light_settings", #"{"lightOffDuration":"0.2s","color":{"blue":1,"alpha":"0.25"}}"#,
        #"option light_settings={"color":{"alpha":0.25,"blue":1.0},"light_off_duration":"0.2s"}"#),
    Case("bypass_proxy_notification", "true", "option bypass_proxy_notification=true"),
    Case("proxy", #""deny""#, "option proxy=DENY"),
]

private let secondAndroid = [
    Case("background_sync", "{}", "option background_sync=true"),
    Case("remote_notification/mutable_content", "true", "option mutable_content=true"),
    Case(
        "remote_notification/use_as_v1_data_message", "true",
        "option use_as_v1_data_message=true"),
    Case("remote_notification/notification/id", "5", "option id=5"),
    Case("remote_notification/notification/title", #""T""#, "title T"),
    Case(
        "remote_notification/notification/channel_id", #""c""#, "option channel_id=c"),
]

private let apple = [
    Case("headers/apns-expiration", #""0""#, "lifespan seconds(0)"),
    Case("headers/apns-priority", #""10""#, "priority high"),
    Case("headers/apns-priority", #""5""#, "priority normal"),
    Case("headers/APNS-PRIORITY", #""1""#, "priority normal"),
    Case("headers/apns-priority", #""1""#, "option apns-priority=1"),
    Case(
        "headers/Apns-Id", #""11111111-2222-3333-4444-555555555555""#,
        "option apns-id=11111111-2222-3333-4444-555555555555"),
    Case("headers/apns-topic", #""com.example""#, "option apns-topic=com.example"),
    Case("headers/apns-push-type", #""voip""#, "option apns-push-type=voip"),
    Case("headers/apns-push-type", #""widgets""#, "priority high"),
    Case("headers/apns-collapse-id", #""c""#, "collapse c"),
    Case("headers/apns-push-type", #""background""#, "option apns-push-type=background"),
    Case("payload/aps/alert", #""only a body""#, "body only a body"),
    Case("payload/aps/alert/title", #""T""#, "title T"),
    Case("payload/aps/alert/subtitle", #""S""#, "subtitle S"),
    Case("payload/aps/alert/body", #""B""#, "body B"),
    Case("payload/aps/alert/loc-key", #""lk""#, #"aps alert={"loc-key":"lk"}"#),
    Case(
        "payload/aps/alert", #"{"loc-args":["a"],"loc-key":"lk"}"#,
        #"aps alert={"loc-args":["a"],"loc-key":"lk"}"#),
    Case("payload/aps/alert/launch-image", #""i""#, #"aps alert={"launch-image":"i"}"#),
    Case("payload/aps/badge", "3", "badge 3"), Case("payload/aps/badge", "0", "badge 0"),
    Case("payload/aps/badge", "5.0", "badge 5"), Case("payload/aps/badge", "5e0", "badge 5"),
    Case("payload/aps/content-available", "1.0", "content-available"),
    Case("payload/aps/sound", #""default""#, "sound default"),
    Case(
        "payload/aps/sound", #"{"name":"n","critical":1,"volume":0.5}"#,
        #"aps sound={"critical":1,"name":"n","volume":0.5}"#),
    Case("payload/aps/category", #""c""#, "category c"),
    Case("payload/aps/thread-id", #""t""#, "thread t"),
    Case("payload/aps/content-available", "1", "content-available"),
    Case("payload/aps/mutable-content", "1", "mutable-content"),
    Case(
        "payload/aps/interruption-level", #""critical""#,
        #"aps interruption-level="critical""#),
    Case("payload/aps/my_own", "[1]", "aps my_own=[1]"),
    Case("payload", #"{"aps":{},"my_own":{"a_b":null}}"#, #"custom my_own={"a_b":null}"#),
    Case("fcm_options/image", #""https://x/i""#, "image https://x/i"),
    Case("fcm_options/analytics_label", #""l""#, "option analytics_label=l"),
    Case("live_activity_token", #""a1b2""#, "option live_activity_token=a1b2"),
    Case("live_activity_token", #""a1b2""#, "priority high"),
]

private let web = [
    Case("headers/TTL", #""60""#, "lifespan seconds(60)"),
    Case("headers/ttl", #""0""#, "lifespan seconds(0)"),
    Case("headers/Urgency", #""high""#, "priority high"),
    Case("headers/Urgency", #""very-low""#, "priority normal"),
    Case("headers/Topic", #""c""#, "collapse c"),
    Case("data", #"{"k":"v"}"#, "data k=v"), Case("notification/title", #""T""#, "title T"),
    Case("notification/body", #""B""#, "body B"),
    Case("notification/image", #""https://x/i""#, "image https://x/i"),
    Case("notification/icon", #""i""#, "option icon=i"),
    Case("notification/requireInteraction", "true", "option requireInteraction=true"),
    Case("notification/vibrate", "[200,100]", "option vibrate=[200,100]"),
    Case(
        "notification/actions", #"[{"action":"a","title":"t"}]"#,
        #"option actions=[{"action":"a","title":"t"}]"#),
    Case("notification/timestamp", "1760000000000", "option timestamp=1760000000000"),
    Case("fcm_options/link", #""https://x/""#, "option link=https://x/"),
    Case("fcm_options/analytics_label", #""l""#, "option analytics_label=l"),
]

extension Case {
    fileprivate init(_ path: String, _ value: String, _ line: String) {
        self.init(path, value, [], line)
    }

    fileprivate func under(_ prefix: String, _ platform: Platform) -> Case {
        Case("\(prefix)/\(path)", value, [platform], line)
    }
}

/// Texts to fill in do not stand alone.
private let localized = [
    Case(
        "notification", #"{"body_loc_key":"k","body_loc_args":["a","b"]}"#,
        #"option body_loc_args=["a","b"]"#),
    Case(
        "notification", #"{"titleLocKey":"k","titleLocArgs":["a"]}"#,
        #"option title_loc_args=["a"]"#),
]

private let cases =
    common + localized.map { $0.under("android", .android) }
    + localized.map { $0.under("android_v2/remote_notification", .android) }
    + (android + androidNotification.map { $0.under("notification", .android) })
    .map { $0.under("android", .android) }
    + (android.filter { $0.path != "priority" } + secondAndroid)
    .map { $0.under("android_v2", .android) }
    + apple.map { $0.under("apns", .apple) } + web.map { $0.under("webpush", .web) }

@Suite("Gateway: the message of v1")
struct MessageRequestTests {
    @Test("GW-1 MSG-5 a field in both spellings, and who gets it", arguments: cases)
    fileprivate func field(_ row: Case) throws {
        for camel in [false, true] {
            // Names in free-form parts are the sender's.
            if camel, row.path.contains("my_own") { continue }
            let body = body(row.path, row.value, camel: camel)
            for platform in row.platforms {
                #expect(try lines(body, for: platform).contains(row.line), "\(body)")
            }
            for other in all where !row.platforms.contains(other) {
                #expect(try lines(body, for: other) == [], "\(body)")
            }
        }
    }

    @Test(
        "GW-1 every field of the discovery document, in both spellings",
        .enabled(if: DiscoveryDocument.file != nil, "make python-sdks has not been run"))
    func discovery() throws {
        let document = try DiscoveryDocument()
        let fields = document.fields(of: "SendMessageRequest")
        #expect(fields.count > 80)
        for field in fields {
            for camel in [true, false] {
                let body = field.body(camel: camel)
                #expect(throws: Never.self, "\(body)") {
                    try MessageRequest(body: Array(body.utf8))
                }
            }
            let unknown = field.body(camel: true, suffix: "X")
            #expect(throws: GatewayError.self, "\(unknown)") {
                try MessageRequest(body: Array(unknown.utf8))
            }
        }
    }

    @Test(
        "MSG-1 GW-1 the four targets",
        arguments: [
            ("token", MessageTarget.token("x")), ("fid", .token("x")), ("topic", .topic("x")),
            ("condition", .condition("x")),
        ])
    func target(_ name: String, _ expected: MessageTarget) throws {
        let body = #"{"message":{"name":"output only","\#(name)":"x"}}"#
        #expect(try MessageRequest(body: Array(body.utf8)).message.target == expected)
    }

    @Test("MSG-7 GW-1 the dry run in both spellings", arguments: ["validate_only", "validateOnly"])
    func dryRun(_ name: String) throws {
        for flag in [true, false] {
            let body = #"{"\#(name)":\#(flag),"message":{"topic":"x"}}"#
            #expect(try MessageRequest(body: Array(body.utf8)).message.validateOnly == flag)
        }
    }

    @Test("GW-1 a body may have a byte-order mark in front, as some libraries write it")
    func mark() throws {
        #expect(
            try lines("\u{FEFF}" + #"{"message":{"topic":"t","data":{"a":"b"}}}"#, for: .android)
                .contains("data a=b"))
    }

    @Test("GW-1 null is not said, and of two equal names the last one counts")
    func json() throws {
        let body = """
            {"message":{"topic":"a","topic":"b","notification":null,"data":{"k":"1","k":"2"},
            "android":{"notification":{"sticky":null,"title":null},"ttl":null},"apns":null}}
            """
        let message = try MessageRequest(body: Array(body.utf8)).message
        #expect(message.target == .topic("b"))
        #expect(message.message == Message(data: ["k": "2"], android: .init()))
        #expect(
            try lines(body, for: .android) == [
                "lifespan longest", "priority normal", "data k=2",
            ])
    }

    @Test(
        "GW-1 MSG-5 numbers of free parts keep their digits",
        arguments: [
            (
                #""apns":{"payload":{"aps":{},"n":18446744073709551615}}"#, Platform.apple,
                "custom n="
            ),
            (#""apns":{"payload":{"aps":{"n":18446744073709551615}}}"#, .apple, "aps n="),
            (#""webpush":{"notification":{"n":18446744073709551615}}"#, .web, "option n="),
        ])
    func digits(_ fields: String, _ platform: Platform, _ line: String) throws {
        let body = #"{"message":{"token":"t",\#(fields)}}"#
        #expect(try lines(body, for: platform).contains(line + "18446744073709551615"))
    }

    /// A name of data, in one code point and in two.
    private static let (composed, decomposed) = ("\u{E9}", "e\u{301}")

    @Test(
        "GW-1 MSG-5 two names that only look the same are two entries",
        arguments: [
            (#""data":{N}"#, Platform.android, "data"),
            (#""android":{"data":{N}}"#, .android, "data"),
            (#""webpush":{"data":{N}}"#, .web, "data"),
            (#""webpush":{"notification":{N}}"#, .web, "option"),
            (#""apns":{"payload":{"aps":{},N}}"#, .apple, "custom"),
            (#""apns":{"payload":{"aps":{N}}}"#, .apple, "aps"),
            (#""apns":{"payload":{"aps":{"alert":{N}}}}"#, .apple, "aps alert"),
        ])
    func likeNames(_ fields: String, _ platform: Platform, _ kind: String) throws {
        let names = #""\#(Self.composed)":"1","\#(Self.decomposed)":"2""#
        let body = #"{"message":{"token":"t",\#(fields.replacing("N", with: names))}}"#
        let found = try lines(body, for: platform).filter { $0.hasPrefix(kind) }
        // In the order of code points.
        let quote = kind == "custom" || kind == "aps" ? "\"" : ""
        let expected =
            kind == "aps alert"
            ? [#"aps alert={"\#(Self.decomposed)":"2","\#(Self.composed)":"1"}"#]
            : [
                "\(kind) \(Self.decomposed)=\(quote)2\(quote)",
                "\(kind) \(Self.composed)=\(quote)1\(quote)",
            ]
        #expect(found.map { Array($0.utf8) } == expected.map { Array($0.utf8) })
    }

    @Test(
        "GW-17 what Apple would refuse is refused at its place",
        arguments: [
            (#"{"payload":{"aps":{"badge":"5"}}}"#, "payload.aps.badge"),
            (#"{"payload":{"aps":{"badge":-1}}}"#, "payload.aps.badge"),
            (#"{"payload":{"aps":{"badge":1.5}}}"#, "payload.aps.badge"),
            (#"{"payload":{"aps":{"alert":{"title":5}}}}"#, "payload.aps.alert.title"),
            (#"{"payload":{"aps":{"content-available":"1"}}}"#, "payload.aps.content-available"),
            (#"{"payload":{"aps":{"sound":5}}}"#, "payload.aps.sound"),
            (#"{"headers":{"apns-push-type":"liveactivity"}}"#, "live_activity_token"),
            (
                #"{"headers":{"apns-push-type":"background","apns-priority":"10"}}"#,
                "headers.apns-priority"
            ),
            (#"{"headers":{"apns-id":"7"}}"#, "headers.apns-id"),
        ])
    func refusedForApple(_ apns: String, _ field: String) throws {
        let error = try #require(throws: MartletError.self) {
            try lines(#"{"message":{"token":"t","apns":\#(apns)}}"#, for: .apple)
        }
        #expect(error.word == .invalidArgument && error.field == "message.apns." + field)
    }

    @Test(
        "GW-4 GW-17 a collapse key that no header can have is refused",
        arguments: ["a\\nb", " a", "a\\t"])
    func legacyCollapseKey(_ key: String) throws {
        let body = #"{"to":"t","collapse_key":"\#(key)","data":{"k":"v"}}"#
        let sent = try LegacyRequest(body: Array(body.utf8)).message
        let error = try #require(throws: MartletError.self) {
            try Message.variants(
                of: try sent.message.encoded(), target: .token,
                collapseKey: try #require(sent.collapseKey))
        }
        #expect(error.word == .invalidArgument && error.field == "collapse_key")
    }

    @Test(
        "PRI-1 without a word on it notifications are urgent and data is not",
        arguments: [
            (#""data":{"k":"v"}"#, "normal", "normal"),
            (#""notification":{"title":"t"}"#, "high", "high"),
            (#""notification":{"title":"t"},"android":{"priority":"normal"}"#, "normal", "high"),
            (#""android":{"notification":{"title_loc_key":"t"}}"#, "high", nil),
            (#""apns":{"payload":{"aps":{"alert":{"loc-key":"k"}}}}"#, nil, "high"),
            (#""apns":{"payload":{"aps":{"content-available":1}}}"#, nil, "normal"),
            (#""apns":{"payload":{"aps":{"badge":3}}}"#, nil, "high"),
            (#""apns":{"payload":{"aps":{"sound":"default"}}}"#, nil, "high"),
            (#""apns":{"payload":{"aps":{"sound":{"name":"a"}}}}"#, nil, "high"),
            (
                #""apns":{"headers":{"apns-push-type":"background"},"payload":{"aps":{"alert":"a"}}}"#,
                nil, "normal"
            ),
        ] as [(String, String?, String?)])
    func priority(_ fields: String, _ android: String?, _ apple: String?) throws {
        let body = #"{"message":{"token":"t",\#(fields)}}"#
        for (platform, expected) in [(Platform.android, android), (.apple, apple)] {
            let found = try lines(body, for: platform).filter { $0.hasPrefix("priority") }
            #expect(found == (expected.map { ["priority \($0)"] } ?? []))
        }
    }
}
