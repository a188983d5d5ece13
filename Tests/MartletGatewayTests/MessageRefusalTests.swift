// SPDX-License-Identifier: Apache-2.0
//
// What the gateway refuses in a v1 request before the broker sees it, in the recorded sentences, and which field it names
// (GW-1, GW-6, MSG-1 to MSG-4). Rests on MessageRequest.

import MartletGateway
import Testing

/// What is wrong | the body, or the fields of a message for the token t | the sentence | the field.
private let refusals: [(String, String, String, String?)] = [
    (
        "no target", #"{"message":{"data":{}}}"#, "Recipient of the message is not set.", "message"
    ),
    ("no message", "{}", "Recipient of the message is not set.", "message"),
    (
        "a field that only SDKs have, in the place of a target",
        #"{"message":{"tokens":["a"]}}"#,
        #"Invalid JSON payload received. Unknown name "tokens" at 'message': Cannot find field."#,
        "message"
    ),
    (
        "two targets", #""topic":"x""#,
        "Invalid value at 'message' (oneof), oneof field 'target' is already set. Cannot set 'topic'",
        "message"
    ),
    (
        "a header of Apple's in two cases",
        #""apns":{"headers":{"apns-priority":"5","APNS-Priority":"10"}}"#,
        "The header apns-priority is there twice; names of headers are the same in any case.",
        "message.apns.headers.apns-priority"
    ),
    (
        "a header that Martlet only passes on, in two cases",
        #""apns":{"headers":{"apns-id":"1","Apns-Id":"2"}}"#,
        "The header apns-id is there twice; names of headers are the same in any case.",
        "message.apns.headers.apns-id"
    ),
    (
        "a header of Web Push in two cases", #""webpush":{"headers":{"TTL":"1","ttl":"2"}}"#,
        "The header ttl is there twice; names of headers are the same in any case.",
        "message.webpush.headers.ttl"
    ),
    (
        "data that is no text", #""data":{"p":12}"#,
        "Invalid value at 'message.data[0].value' (TYPE_STRING), 12", "message.data[0].value"
    ),
    (
        "data that is null", #""data":{"a":"","p":null}"#,
        "Invalid value at 'message.data[1].value' (TYPE_STRING), null", "message.data[1].value"
    ),
    (
        "texts for a title that is not named",
        #""android":{"notification":{"title_loc_args":["a"]}}"#,
        "title_loc_args needs title_loc_key, the text that they go into.",
        "message.android.notification.title_loc_args"
    ),
    (
        "texts for a body that is not named",
        #""android":{"notification":{"titleLocKey":"k","bodyLocArgs":["a"]}}"#,
        "body_loc_args needs body_loc_key, the text that they go into.",
        "message.android.notification.body_loc_args"
    ),
    (
        "texts for an alert that is not named",
        #""apns":{"payload":{"aps":{"alert":{"loc-key":"k","title-loc-args":["a"]}}}}"#,
        "title-loc-args needs title-loc-key, the text that they go into.",
        "message.apns.payload.aps.alert.title-loc-args"
    ),
    (
        "an unknown field", #""notificaton":{}"#,
        #"Invalid JSON payload received. Unknown name "notificaton" at 'message': Cannot find field."#,
        "message"
    ),
    (
        "an unknown field beside the message", #"{"message":{"token":"t"},"dry":true}"#,
        #"Invalid JSON payload received. Unknown name "dry": Cannot find field."#, ""
    ),
    (
        "an unknown field of a notification", #""android":{"notification":{"colour":"x"}}"#,
        #"Invalid JSON payload received. Unknown name "colour" at 'message.android.notification': "#
            + "Cannot find field.", "message.android.notification"
    ),
    (
        "a text for a flag", #""android":{"directBootOk":"yes"}"#,
        #"Invalid value at 'message.android.direct_boot_ok' (TYPE_BOOL), "yes""#,
        "message.android.direct_boot_ok"
    ),
    (
        "a list for an object", #""notification":[]"#,
        "Invalid value at 'message.notification' "
            + "(type.googleapis.com/google.firebase.fcm.v1.Notification), []",
        "message.notification"
    ),
    (
        "an unknown name of a kind", #""android":{"priority":"urgent"}"#,
        "Invalid value at 'message.android.priority' "
            + #"(type.googleapis.com/google.firebase.fcm.v1.AndroidMessagePriority), "urgent""#,
        "message.android.priority"
    ),
    (
        "a number that is too large", #""android":{"notification":{"notification_count":1e12}}"#,
        "Invalid value at 'message.android.notification.notification_count' (TYPE_INT32), "
            + "1e12", "message.android.notification.notification_count"
    ),
    (
        "a duration without s", #""android":{"ttl":"5"}"#,
        #"Invalid value at 'message.android.ttl' (type.googleapis.com/google.protobuf.Duration), "5""#,
        "message.android.ttl"
    ),
    (
        "a negative time to live", #""android":{"ttl":"-5s"}"#,
        "TTL must be a non-negative duration, such as 3600s.", "message.android.ttl"
    ),
    (
        "a web TTL that is no number", #""webpush":{"headers":{"TTL":"-1"}}"#,
        "TTL must be a non-negative integer.", "message.webpush.headers.TTL"
    ),
    (
        "a time that is none", #""android":{"notification":{"event_time":"today"}}"#,
        "Invalid value at 'message.android.notification.event_time' "
            + #"(type.googleapis.com/google.protobuf.Timestamp), "today""#,
        "message.android.notification.event_time"
    ),
    (
        "a month that is none",
        #""android":{"notification":{"event_time":"2026-13-01T00:00:00Z"}}"#,
        "Invalid value at 'message.android.notification.event_time' "
            + #"(type.googleapis.com/google.protobuf.Timestamp), "2026-13-01T00:00:00Z""#,
        "message.android.notification.event_time"
    ),
    (
        "a day that is none", #""android":{"notification":{"event_time":"2026-02-29T00:00:00Z"}}"#,
        "Invalid value at 'message.android.notification.event_time' "
            + #"(type.googleapis.com/google.protobuf.Timestamp), "2026-02-29T00:00:00Z""#,
        "message.android.notification.event_time"
    ),
    (
        "the name of a color", #""android":{"notification":{"color":"red"}}"#,
        "A color is written #rrggbb.", "message.android.notification.color"
    ),
    (
        "a collapse ID that Apple refuses",
        #""apns":{"headers":{"apns-collapse-id":""# + String(repeating: "x", count: 65) + #""}}"#,
        "apns-collapse-id has at most 64 bytes.", "message.apns.headers.apns-collapse-id"
    ),
    (
        "a collapse ID that is no header", #""apns":{"headers":{"apns-collapse-id":"a\r\nb"}}"#,
        "apns-collapse-id has a control character, or a blank at an end, which no HTTP header can have.",
        "message.apns.headers.apns-collapse-id"
    ),
    (
        "a header of Apple's that is none", #""apns":{"headers":{"apns-other":" a"}}"#,
        "apns-other has a control character, or a blank at an end, which no HTTP header can have.",
        "message.apns.headers.apns-other"
    ),
    (
        "a name that no header has", #""webpush":{"headers":{"a b":"c"}}"#,
        #""a b" cannot be the name of a header."#, "message.webpush.headers.a b"
    ),
    (
        "a topic that is no header", #""webpush":{"headers":{"Topic":"a\u0000"}}"#,
        "Topic has a control character, or a blank at an end, which no HTTP header can have.",
        "message.webpush.headers.Topic"
    ),
    (
        "a payload for Apple without aps", #""apns":{"payload":{"sound":"default"}}"#,
        "A payload for Apple has the dictionary aps.", "message.apns.payload.aps"
    ),
    (
        "a payload for Apple whose aps is null", #""apns":{"payload":{"aps":null}}"#,
        "A payload for Apple has the dictionary aps.", "message.apns.payload.aps"
    ),
    (
        "a link that is not safe", #""webpush":{"fcm_options":{"link":"http://example.com"}}"#,
        "A link begins with https://.", "message.webpush.fcm_options.link"
    ),
    (
        "both spellings", #""android":{"collapse_key":"a","collapseKey":"b"}"#,
        "Invalid value at 'message.android.collapse_key': it is there as collapse_key and as "
            + "collapseKey.", "message.android.collapse_key"
    ),
    (
        "a label that is none", #""fcm_options":{"analytics_label":"ä"}"#,
        "An analytics label has 1 to 50 characters of [a-zA-Z0-9-_.~%].",
        "message.fcm_options.analytics_label"
    ),
    (
        "two blocks for Android", #""android":{},"android_v2":{}"#,
        "A message has android or android_v2, not both.", "message.android_v2"
    ),
    (
        "what is no JSON", "{",
        "Invalid JSON payload received. At byte 1: a name in quotes is missing.", nil
    ),
]

@Suite("Gateway: what v1 refuses")
struct MessageRefusalTests {
    @Test("GW-1 GW-6 a refusal names the field", arguments: refusals.indices)
    func refusal(_ row: Int) throws {
        let (what, text, message, field) = refusals[row]
        let body = text.first == "{" ? text : #"{"message":{"token":"t",\#(text)}}"#
        let error = try #require(throws: GatewayError.self, "\(what)") {
            try MessageRequest(body: Array(body.utf8))
        }
        #expect(error.message == message, "\(what)")
        #expect(error.httpStatus == 400 && error.status == .invalidArgument, "\(what)")
        #expect(error.violations?.first?.field == field, "\(what)")
    }
}
