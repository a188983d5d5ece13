// SPDX-License-Identifier: Apache-2.0
//
// Options of Apple's block that Apple would refuse: the broker refuses them first, and names the field (GW-17).

import MartletBase
import MartletWire
import Testing

@Suite struct AppleOptionTests {
    private static let activity = Message.DataEntry(key: "live_activity_token", value: "c3c3")

    /// What is wrong | options of Apple's block | the block's priority | field below message.apns
    static let wrongSending: [(String, [(String, String)], MessagePriority?, String)] = [
        ("a push type that is none", [("apns-push-type", "loud")], nil, "headers.apns-push-type"),
        ("a push type in capitals", [("apns-push-type", "VoIP")], nil, "headers.apns-push-type"),
        (
            "a Live Activity without its token", [("apns-push-type", "liveactivity")], nil,
            "live_activity_token"
        ),
        (
            "a Live Activity's token for a call",
            [("apns-push-type", "voip"), ("live_activity_token", "c3")], nil,
            "headers.apns-push-type"
        ),
        (
            "a token that leaves the path", [("live_activity_token", "a/")], nil,
            "live_activity_token"
        ),
        ("half a byte of a token", [("live_activity_token", "c3c")], nil, "live_activity_token"),
        ("no token", [("live_activity_token", "")], nil, "live_activity_token"),
        (
            "a long token", [("live_activity_token", String(repeating: "c", count: 258))], nil,
            "live_activity_token"
        ),
        (
            "a topic of another push type",
            [("apns-push-type", "voip"), ("apns-topic", "com.example.tides")], nil,
            "headers.apns-topic"
        ),
        (
            "an activity's token with the app's topic",
            [("apns-topic", "com.example.tides"), ("live_activity_token", "c3")], nil,
            "headers.apns-topic"
        ),
        ("device management without topic", [("apns-push-type", "mdm")], nil, "headers.apns-topic"),
        (
            "an alert with the topic of a call",
            [("apns-push-type", "alert"), ("apns-topic", "com.example.tides.voip")], nil,
            "headers.apns-topic"
        ),
        (
            "a background with the topic of an activity",
            [
                ("apns-push-type", "background"),
                ("apns-topic", "com.example.tides.push-type.liveactivity"),
            ], nil, "headers.apns-topic"
        ),
        (
            "an activity's topic without its token",
            [("apns-topic", "com.example.tides.push-type.liveactivity")], nil,
            "live_activity_token"
        ),
        ("an empty topic", [("apns-topic", "")], nil, "headers.apns-topic"),
        ("an ID that is no UUID", [("apns-id", "1")], nil, "headers.apns-id"),
        (
            "an ID with a letter too many", [("apns-id", "11111111-2222-3333-4444-5555555555555")],
            nil, "headers.apns-id"
        ),
        (
            "an urgent background", [("apns-push-type", "background")], .high,
            "headers.apns-priority"
        ),
        (
            "a Live Activity of priority 1",
            [("apns-priority", "1"), ("live_activity_token", "c3")], nil, "headers.apns-priority"
        ),
        ("a priority as option", [("apns-priority", "10")], nil, "headers.apns-priority"),
        ("an expiration as option", [("apns-expiration", "0")], nil, "headers.apns-expiration"),
        ("a collapse ID as option", [("apns-collapse-id", "a")], nil, "headers.apns-collapse-id"),
    ]

    @Test(
        "GW-17 options that Apple refuses or that contradict",
        arguments: 0..<Self.wrongSending.count)
    func refusesSending(row: Int) throws {
        let (what, options, priority, field) = Self.wrongSending[row]
        let block = Message.APNS(
            priority: priority, options: options.map { .init(key: $0.0, value: $0.1) })
        let error = try #require(refusal(Message(apns: block)), "\(what) is accepted")
        #expect(error.word == .invalidArgument && error.field == "message.apns." + field, "\(what)")
    }

    @Test("GW-17 a Live Activity is on one device", arguments: TargetKind.allCases)
    func activityTarget(_ kind: TargetKind) throws {
        let message = Message(data: ["a": "1"], apns: .init(options: [Self.activity]))
        if kind == .token {
            #expect(throws: Never.self) { try variants(message, target: kind) }
        } else {
            let error = #expect(throws: MartletError.self) { try variants(message, target: kind) }
            #expect(error?.field == "message.apns.live_activity_token")
        }
    }

    /// Member of aps | JSON that it takes | JSON that it does not take
    static let members: [(String, [String], [String])] = [
        (
            "badge", ["0", "5", "5.0", "5e0", "4294967295", "null"],
            ["-1", "1.5", #""5""#, "true", "4294967296"]
        ),
        ("content-available", ["1", "1.0", "true", "0"], [#""1""#, "2", "[]"]),
        ("mutable-content", ["1", "false"], [#""1""#, "{}"]),
        (
            "sound", [#""a""#, #"{"name":"a","critical":1,"volume":0.5}"#],
            ["1", "[]", #"{"name":1}"#]
        ),
        ("category", [#""a""#], ["1", "{}"]), ("thread-id", [#""a""#], ["7"]),
        ("interruption-level", [#""critical""#], ["1"]),
        ("relevance-score", ["0.5", "1"], [#""1""#]),
        ("timestamp", ["1764245012"], [#""now""#]), ("event", [#""update""#], ["1"]),
        ("content-state", ["{}"], ["[]", #""a""#]), ("attributes", ["{}"], ["1"]),
        ("url-args", [#"["a"]"#], [#""a""#]), ("my-own", ["1", #""a""#, "[]", "{}"], []),
        (
            "alert",
            [#"{"title":"a","loc-args":["a"]}"#, #"{"title":{"loc-key":"k"}}"#, #"{"other":1}"#],
            [#"{"title":5}"#, #"{"loc-key":1}"#, #"{"loc-args":"a"}"#, #"{"body":[]}"#]
        ),
    ]

    @Test(
        "GW-17 members of aps have the types that Apple documents",
        arguments: 0..<Self.members.count)
    func memberTypes(row: Int) {
        let (name, right, wrong) = Self.members[row]
        func field(_ value: String) -> String? {
            refusal(Message(apns: .init(payload: .init(aps: [.init(key: name, value: value)]))))?
                .field
        }
        for value in right { #expect(field(value) == nil, "\(name): \(value)") }
        for value in wrong {
            let place = field(value) ?? "accepted"
            #expect(
                place.hasPrefix("message.apns.payload.aps.\(name)"), "\(name): \(value) \(place)")
        }
    }
}
