// SPDX-License-Identifier: Apache-2.0
//
// What a sender's message is as a request to Apple: kind, topic, priority, ID, expiration and address, header by header
// (GW-17). From the sender's block through the broker's own rules to the request. Rests on APNsRequest.

import AsyncHTTPClient
import Martlet
import MartletBridge
import MartletRows
import MartletWire
import Testing

private let now = Instant(millisecondsSince1970: 1_764_000_000_000)
private let device = APNsAddress(
    token: [0xA1, 0xB2], isSandbox: false, bundle: "com.example.tides")
private let activity = String(repeating: "c3", count: 32)
private let alert = Message.ApplePayload(sound: "default")

private func option(_ key: String, _ value: String) -> Message.DataEntry {
    .init(key: key, value: value)
}

/// The request for an Apple device, of a message that the broker has accepted.
private func request(
    _ message: Message, key: String = "", priority: MessagePriority = .normal,
    to address: APNsAddress = device
) throws -> APNsRequest {
    var writer = WireWriter()
    message.encode(into: &writer)
    let variants = try Message.variants(
        of: writer.bytes, target: .token, priority: priority, collapseKey: key)
    let variant = try #require(variants.first { $0.platforms.contains(.init(.apple)) })
    let delivery = Deliver(
        streamID: 47, accepted: now, expires: now.advanced(bySeconds: 60), kind: .token,
        priority: variant.priority, from: "100200300", message: variant.body)
    return try APNsRequest(
        delivery, to: address, holder: Holder(digestStart: 7), projectID: "harbour")
}

extension APNsRequest {
    fileprivate subscript(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

@Suite("Requests to Apple's push service")
struct RequestTests {
    /// push type | what the topic has behind the bundle ID
    static let kinds: [(String, String)] = [
        ("alert", ""), ("background", ""), ("complication", ".complication"),
        ("controls", ".push-type.controls"), ("fileprovider", ".pushkit.fileprovider"),
        ("liveactivity", ".push-type.liveactivity"), ("location", ".location-query"),
        ("pushtotalk", ".voip-ptt"), ("voip", ".voip"), ("widgets", ".push-type.widgets"),
    ]

    @Test("GW-17 each push type has its topic, and its priority", arguments: Self.kinds)
    func kind(_ type: String, _ suffix: String) throws {
        var options = [option("apns-push-type", type)]
        if type == "liveactivity" { options.append(option("live_activity_token", activity)) }
        let message = Message(
            apns: .init(priority: type == "background" ? nil : .high, options: options))
        let sent = try request(message)
        #expect(sent["apns-push-type"] == type)
        #expect(sent["apns-topic"] == "com.example.tides" + suffix)
        #expect(sent["apns-priority"] == (type == "background" ? "5" : "10"))
        #expect(sent.path == "/3/device/" + (type == "liveactivity" ? activity : "a1b2"))
        // Apple's word on another address or topic says nothing of the instance.
        #expect(sent.isForInstance == suffix.isEmpty)
        // An app may be registered under such a topic, which then is the instance's own.
        guard !suffix.isEmpty, type != "liveactivity" else { return }
        var own = device
        own.bundle += suffix
        let again = try request(message, to: own)
        #expect(again["apns-topic"] == own.bundle && again.isForInstance)
    }

    @Test("GW-17 a Live Activity's token says the push type, and Apple's topic can be said too")
    func activities() throws {
        let aps = [
            option("event", #""update""#), option("timestamp", "1764245012"),
            option("content-state", #"{"tide":3}"#),
        ]
        let topic = "com.example.tides.push-type.liveactivity"
        for options in [[], [option("apns-topic", topic)]] {
            let sent = try request(
                Message(
                    apns: .init(
                        priority: .normal, payload: .init(aps: aps),
                        options: options + [option("live_activity_token", activity)])))
            #expect(sent["apns-push-type"] == "liveactivity" && sent["apns-topic"] == topic)
            #expect(sent["apns-priority"] == "5" && sent.path == "/3/device/" + activity)
            let payload = try JSONValue(parsing: sent.payload)
            #expect(payload["aps"]?["content-state"]?["tide"] == .integer(3))
        }
    }

    @Test("GW-17 without a push type it follows from the topic, and else from the payload")
    func followingKind() throws {
        func type(_ apns: Message.APNS) throws -> String? {
            try request(Message(apns: apns))["apns-push-type"]
        }
        #expect(try type(.init(payload: .init(badge: 3))) == "alert")
        #expect(try type(.init(payload: .init(contentAvailable: true))) == "background")
        let topic = option("apns-topic", "com.example.tides.voip")
        #expect(try type(.init(payload: alert, options: [topic])) == "voip")
        let other = option("apns-topic", "com.example.other")
        #expect(try type(.init(payload: alert, options: [other])) == "alert")
        #expect(try request(Message(apns: .init(options: [other])))["apns-topic"] == other.value)
    }

    @Test("GW-17 priority 1, an ID and an expiration go to Apple as they were given")
    func given() throws {
        let id = "11111111-2222-3333-4444-555555555555"
        // The broker stores for 28 days at most, and Apple may keep the message for longer.
        let sent = try request(
            Message(
                apns: .init(
                    expirationSeconds: 1_766_500_000, priority: .normal, payload: alert,
                    options: [option("apns-id", id), option("apns-priority", "1")])))
        #expect(sent["apns-priority"] == "1" && sent["apns-id"] == id)
        #expect(sent["apns-expiration"] == "1766500000")
        let usual = try request(Message(apns: .init(payload: alert)))
        #expect(usual["apns-priority"] == "5" && usual["apns-expiration"] == "1764000060")
        #expect(usual["apns-id"]?.count == 36 && usual["apns-id"] != id)
    }

    @Test(
        "COL-1 GW-17 SEND's collapse key is apns-collapse-id where the block has none",
        arguments: [
            (Message(notification: .init(title: "t")), "k", "k"),
            (Message(data: ["a": "1"]), "k", "k"),
            (Message(data: ["a": "1"], apns: .init(payload: alert)), "k", "k"),
            (Message(data: ["a": "1"], apns: .init(collapseID: "own")), "k", "own"),
            (Message(data: ["a": "1"], apns: .init(collapseID: "")), "k", nil),
            (Message(data: ["a": "1"], android: .init(collapseKey: "a")), "k", "k"),
            (Message(data: ["a": "1"], android: .init(collapseKey: "a")), "", nil),
            // Apple takes 64 bytes: `printf %65s | tr ' ' k | openssl dgst -sha256 -binary | basenc --base64url`.
            (
                Message(data: ["a": "1"]), String(repeating: "k", count: 65),
                "85zcJYR1jJnPgcH0HSVy9U4XBmr__J0Yeur-X3y-ISI"
            ),
        ] as [(Message, String, String?)])
    func collapseKey(_ message: Message, _ key: String, _ expected: String?) throws {
        #expect(try request(message, key: key)["apns-collapse-id"] == expected)
    }

    @Test("GW-17 what an earlier version accepted and no header can have is no header")
    func storedBefore() throws {
        func stored(_ fields: [UInt8]) throws -> APNsRequest {
            try APNsRequest(
                Deliver(
                    streamID: 1, accepted: now, expires: now, kind: .token, priority: .high,
                    from: "", message: fields), to: device, holder: Holder(digestStart: 7),
                projectID: "harbour")
        }
        // A collapse key with CR LF becomes its digest.
        let key = try stored([19, 4, 0, 97, 13, 10, 98])
        #expect(key["apns-collapse-id"] == "GHRfNqBeKQcnCQQtYGLOVPGwj_NsJ7qAw5-B-wEMjOI")
        // The token of a Live Activity with a slash.
        var options = WireWriter()
        options.string("live_activity_token")
        options.text("a/")
        let bytes = [21, UInt8(options.bytes.count), 0] + options.bytes
        #expect(throws: MartletError.self) { try stored(bytes) }
    }

    @Test("GW-17 a request that our client does not build is refused, and others may be later")
    func clientErrors() {
        for error: HTTPClientError in [
            .invalidHeaderFieldValues(["a\n"]), .invalidHeaderFieldNames(["a b"]), .invalidURL,
        ] {
            #expect(error.isOfRequest, "\(error)")
        }
        for error: HTTPClientError in [
            .remoteConnectionClosed, .connectTimeout, .readTimeout, .cancelled, .deadlineExceeded,
            .alreadyShutdown, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout,
        ] {
            #expect(!error.isOfRequest, "\(error)")
        }
    }
}
