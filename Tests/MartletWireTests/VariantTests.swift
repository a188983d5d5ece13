// SPDX-License-Identifier: Apache-2.0
//
// What the instances of each platform get of a message with platform blocks, and which blocks are refused (MSG-5, MSG-3,
// MSG-4, MSG-8, TTL-1, COL-2).

import MartletBase
import MartletWire
import TestSupport
import Testing

private func refusal(_ bytes: [UInt8]) -> MartletError? {
    do {
        _ = try Message.variants(of: bytes, target: .token)
        return nil
    } catch {
        return error
    }
}

private func field(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    [tag, UInt8(content.count & 0xFF), UInt8(content.count >> 8)] + content
}

private let common = Message(
    notification: .init(title: "t", body: "b"), data: ["a": "1", "z": "2"])

@Suite struct VariantTests {
    @Test("MSG-5 without blocks one variant holds for all platforms, with what SEND says")
    func plain() throws {
        let all = try variants(
            Message(data: ["a": "1"]), lifespan: .seconds(60), priority: .high, collapseKey: "k",
            package: "com.example")
        try #require(all.count == 1)
        #expect(all[0].platforms == .all)
        #expect(all[0].lifespan == .seconds(60))
        #expect(all[0].priority == .high)
        #expect(all[0].collapse == .named("k"))
        #expect(all[0].restrictedPackageName == "com.example")
    }

    @Test("MSG-5 a block overrides texts and keys, adds others, and is nobody else's")
    func merged() throws {
        var message = common
        message.android = .init(
            notification: .init(title: "T", image: "i"),
            data: [.init(key: "z", value: "3"), .init(key: "m", value: "4")],
            options: [.init(key: "icon", value: "wave")])
        message.apns = .init(payload: .init(badge: 0, custom: [.init(key: "c", value: "[1]")]))
        let all = try variants(message)
        try #require(all.map(\.platforms) == [.init(.android), .init(.apple), .init(.web)])

        var android = Message(
            notification: .init(title: "T", body: "b", image: "i"),
            data: ["a": "1", "z": "3", "m": "4"])
        android.options = [.init(key: "icon", value: "wave")]
        #expect(try read(all[0]) == android)

        var apple = common
        apple.applePayload = .init(badge: 0, custom: [.init(key: "c", value: "[1]")])
        #expect(try read(all[1]) == apple)

        #expect(try read(all[2]) == common)
    }

    @Test("MSG-5 blocks that change nothing make no variants of their own")
    func same() throws {
        var message = common
        message.android = .init()
        message.webpush = .init(notification: .init(title: "t"))
        let all = try variants(message)
        #expect(all.count == 1 && all[0].platforms == .all)
        message.apns = .init(priority: .high)
        let split = try variants(message)
        #expect(split.count == 2)
        #expect(Set(split.map(\.platforms)) == [.init(.apple), [.init(.android), .init(.web)]])
    }

    @Test("TTL-1, PRI-1, COL-1, MSG-8 each platform's block says how it is sent there")
    func traits() throws {
        var message = Message(data: ["a": "1"])
        message.android = .init(
            timeToLiveSeconds: 4500, priority: .high, collapseKey: "A",
            restrictedPackageName: "com.a")
        message.apns = .init(expirationSeconds: 1_760_000_000, collapseID: "I")
        message.webpush = .init(timeToLiveSeconds: 0, priority: .high, topic: "W")
        let all = try variants(message, lifespan: .seconds(9), collapseKey: "k", package: "com.x")
        #expect(
            all.map(\.lifespan) == [
                .seconds(4500), .until(Instant(millisecondsSince1970: 1_760_000_000_000)),
                .seconds(0),
            ])
        #expect(all.map(\.priority) == [.high, .normal, .high])
        #expect(all.map(\.collapse) == [.named("A"), .named("I"), .named("W")])
        #expect(all.map(\.restrictedPackageName) == ["com.a", "com.x", "com.x"])

        message.apns = .init(expirationSeconds: 0)
        let never = try variants(message)
        #expect(never[1].lifespan == .seconds(0))
    }

    /// message | target | key | what it replaces
    static let collapsing: [(Message, TargetKind, String, CollapseKey)] = [
        (Message(), .token, "", .none),
        (Message(), .topic, "", .app),
        (Message(), .condition, "", .none),
        (Message(), .topic, "k", .named("k")),
        (Message(data: ["a": ""]), .topic, "", .none),
        (Message(data: ["a": ""]), .token, "k", .named("k")),
        (Message(notification: .init(title: "")), .token, "", .app),
        (Message(notification: .init(image: "i")), .condition, "k", .app),
        (Message(notification: .init(body: "b"), data: ["a": ""]), .topic, "k", .app),
    ]

    @Test("COL-2 what makes a message collapsible", arguments: 0..<Self.collapsing.count)
    func collapse(row: Int) throws {
        let (message, target, key, expected) = Self.collapsing[row]
        let all = try variants(message, target: target, collapseKey: key)
        #expect(all.map(\.collapse) == [expected])
    }

    @Test("COL-2 a platform's block decides for that platform")
    func collapsePerPlatform() throws {
        var message = Message(data: ["a": "1"])
        message.android = .init(notification: .init(title: "t"), collapseKey: "k")
        message.apns = .init(payload: .init(contentAvailable: true))
        message.webpush = .init(topic: "")
        let all = try variants(message, collapseKey: "c")
        #expect(all.map(\.collapse) == [.app, .named("c"), .none])
        // A silent push has a payload, so a topic's is collapsible only by its key.
        let silent = try variants(
            Message(apns: .init(payload: .init(contentAvailable: true))), target: .topic)
        #expect(silent.map(\.collapse) == [.none])
    }

    @Test(
        "COL-2 apns-collapse-id and Topic are keys of their own for notifications, collapse_key is not"
    )
    func ownKeys() throws {
        var message = Message(notification: .init(title: "t"))
        message.android = .init(collapseKey: "k")
        message.apns = .init(collapseID: "chat-1")
        message.webpush = .init(topic: "chat-2")
        let all = try variants(message, collapseKey: "c")
        #expect(all.map(\.collapse) == [.app, .named("chat-1"), .named("chat-2")])
        // GW-11: foreign push services collapse by the key too.
        let delivered = all.map { Message.deliveredCollapseKey(in: $0.body) }
        #expect(delivered == [nil, "chat-1", "chat-2"])
        message.apns = .init(collapseID: "")
        let usual = try variants(message, collapseKey: "c")
        #expect(usual.first { $0.platforms.contains(.init(.apple)) }?.collapse == .app)
    }

    @Test("MSG-5 a message of blocks alone is for their platforms alone")
    func onlySomePlatforms() throws {
        var message = Message(apns: .init(notification: .init(title: "t")))
        #expect(try variants(message, target: .topic).map(\.platforms) == [.init(.apple)])
        message.webpush = .init(data: [.init(key: "a", value: "1")])
        #expect(
            try variants(message, target: .topic).map(\.platforms) == [.init(.apple), .init(.web)])
        // What all get makes it a message for everybody again.
        message.data = [.init(key: "b", value: "2")]
        #expect(
            try variants(message).map(\.platforms) == [.init(.apple), .init(.web), .init(.android)])
        message.data = []
        message.notification = .init(image: "i")
        #expect(try variants(message).count == 3)
        // A message without any payload and without blocks is for everybody.
        #expect(try variants(Message(), target: .topic).map(\.platforms) == [.all])
    }

    @Test("COL-2 a notification whose texts the application looks up is one")
    func lookedUp() throws {
        for key in ["title_loc_key", "body_loc_key", "sound"] {
            let message = Message(android: .init(options: [.init(key: key, value: "k")]))
            let isShown = key != "sound"
            #expect(
                try variants(message, collapseKey: "c")[0].collapse
                    == (isShown ? .app : .named("c")))
        }
        let alert = Message.DataEntry(key: "alert", value: #"{"loc-key":"k"}"#)
        let message = Message(apns: .init(payload: .init(aps: [alert])))
        #expect(try variants(message, collapseKey: "c")[0].collapse == .app)
    }

    @Test("MSG-3 the size counts for what each platform gets")
    func size() throws {
        func message(_ common: Int, _ own: Int, key: String) -> Message {
            Message(
                data: ["k": String(repeating: "v", count: common)],
                android: .init(data: [.init(key: key, value: String(repeating: "w", count: own))]))
        }
        func sizes(_ message: Message) throws -> [MessageSize] {
            try variants(message).map(\.size)
        }
        // A field takes three bytes before its content, an entry two more for the length of its key.
        #expect(
            try sizes(message(1999, 2000, key: "o")) == [
                MessageSize(payloadBytes: 4001, blockBytes: 2006),
                MessageSize(payloadBytes: 2000),
            ])
        #expect(
            try sizes(message(4000, 1, key: "k")) == [
                MessageSize(payloadBytes: 2, blockBytes: 7), MessageSize(payloadBytes: 4001),
            ])
        // Nobody gets the common text where every platform has its own.
        let long = String(repeating: "v", count: 4001)
        let short = Message.Notification(body: "")
        #expect(
            try sizes(
                Message(
                    notification: .init(body: long), android: .init(notification: short),
                    apns: .init(notification: short), webpush: .init(notification: short)))
                == [MessageSize(payloadBytes: 0, blockBytes: 3)])
        // Equal variants of unequal blocks are one, and the longer block counts.
        let again = Message.DataEntry(key: "k", value: "v")
        #expect(
            try sizes(
                Message(
                    data: [again], android: .init(data: [again]), apns: .init(),
                    webpush: .init(data: [again])))
                == [MessageSize(payloadBytes: 2, blockBytes: 7)])
    }

    /// what is wrong | a message | field
    static let wrong: [(String, Message, String)] = [
        (
            "a reserved key", Message(android: .init(data: [.init(key: "from", value: "")])),
            "message.android.data"
        ),
        (
            "a reserved custom key",
            Message(
                apns: .init(payload: .init(custom: [.init(key: "gcm.x", value: "1")]))),
            "message.apns.payload"
        ),
        (
            "the key aps",
            Message(apns: .init(payload: .init(custom: [.init(key: "aps", value: "{}")]))),
            "message.apns.payload"
        ),
        (
            "custom text that is not JSON",
            Message(apns: .init(payload: .init(custom: [.init(key: "c", value: "{]")]))),
            "message.apns.payload"
        ),
        (
            "a custom key twice",
            Message(
                apns: .init(
                    payload: .init(
                        custom: [.init(key: "c", value: "1"), .init(key: "c", value: "2")]))),
            "message.apns.payload"
        ),
        (
            "a data key twice",
            Message(
                webpush: .init(data: [.init(key: "c", value: ""), .init(key: "c", value: "")])),
            "message.webpush.data"
        ),
        (
            "an option twice",
            Message(
                android: .init(
                    options: [.init(key: "icon", value: ""), .init(key: "icon", value: "")])),
            "message.android.notification"
        ),
        (
            "a member of aps that is no JSON",
            Message(apns: .init(payload: .init(aps: [.init(key: "c", value: "{]")]))),
            "message.apns.payload.aps"
        ),
        (
            "the same member of aps twice",
            Message(
                apns: .init(
                    payload: .init(
                        aps: [.init(key: "c", value: "1"), .init(key: "c", value: "2")]))),
            "message.apns.payload.aps"
        ),
        (
            "an alert that is a text",
            Message(apns: .init(payload: .init(aps: [.init(key: "alert", value: "\"a\"")]))),
            "message.apns.payload.aps"
        ),
        (
            "an expiration before 1970", Message(apns: .init(expirationSeconds: -1)),
            "message.apns.headers.apns-expiration"
        ),
        (
            "an expiration that overflows", Message(apns: .init(expirationSeconds: .max)),
            "message.apns.headers.apns-expiration"
        ),
        (
            "a long collapse key",
            Message(android: .init(collapseKey: String(repeating: "k", count: 257))),
            "message.android.collapse_key"
        ),
        (
            "a long collapse ID",
            Message(apns: .init(collapseID: String(repeating: "k", count: 257))),
            "message.apns.headers.apns-collapse-id"
        ),
        (
            "a long topic", Message(webpush: .init(topic: String(repeating: "k", count: 257))),
            "message.webpush.headers.Topic"
        ),
        (
            "a long package name",
            Message(android: .init(restrictedPackageName: String(repeating: "k", count: 256))),
            "message.android.restricted_package_name"
        ),
    ]

    @Test("MSG-4, MSG-5 what a block may not say", arguments: 0..<Self.wrong.count)
    func refuses(row: Int) throws {
        let (what, message, field) = Self.wrong[row]
        let error = try #require(refusal(message), "\(what) is accepted")
        #expect(error.word == .invalidArgument, "\(what)")
        #expect(error.field == field, "\(what)")
        #expect(throws: error) { try message.encoded() }
    }

    /// what is wrong | bytes | field
    static let malformed: [(String, [UInt8], String)] = [
        ("Apple's badge in Android's block", field(5, field(32, [0, 0, 0, 0])), "message.android"),
        ("a package name in Apple's block", field(6, field(20, [65])), "message.apns"),
        ("a package name on the web", field(7, field(20, [65])), "message.webpush"),
        ("a time to live in Apple's block", field(6, field(16, [0, 0, 0, 0])), "message.apns"),
        ("a block in a block", field(5, field(5, [])), "message.android"),
        ("a short time to live", field(5, field(16, [0])), "message.android.ttl"),
        ("priority 0", field(5, field(18, [0])), "message.android.priority"),
        ("priority 3", field(6, field(18, [3])), "message.apns.headers.apns-priority"),
        ("two priorities", field(7, field(18, [1, 1])), "message.webpush.headers.Urgency"),
        ("priority twice", field(7, field(18, [1]) + field(18, [1])), "message.webpush"),
        ("a long badge", field(6, field(32, [0, 0, 0, 0, 0])), "message.apns.payload.aps.badge"),
        (
            "a mark with content", field(6, field(35, [1])),
            "message.apns.payload.aps.content-available"
        ),
        (
            "a sound that is not UTF-8", field(6, field(33, [0xFF])),
            "message.apns.payload.aps.sound"
        ),
        ("a block's field cut short", field(5, [1, 2, 0, 65]), "message.android"),
        (
            "a title that is not UTF-8", field(6, field(1, [0xC0])),
            "message.apns.payload.aps.alert"
        ),
        ("an option without key", field(7, field(21, [])), "message.webpush.notification"),
    ]

    @Test("MSG-5 what is malformed in a block", arguments: 0..<Self.malformed.count)
    func refusesMalformed(row: Int) throws {
        let (what, bytes, field) = Self.malformed[row]
        let error = try #require(refusal(bytes), "\(what) is accepted")
        #expect(error.word == .invalidArgument, "\(what)")
        #expect(error.field == field, "\(what)")
    }

    @Test("COL-1, MSG-8 what SEND itself may not say")
    func sendItself() {
        func refused(
            _ lifespan: Lifespan = .longest, _ key: Int = 0, _ package: Int = 0
        ) -> String? {
            do {
                _ = try Message.variants(
                    of: [], target: .token, lifespan: lifespan,
                    collapseKey: String(repeating: "k", count: key),
                    restrictedPackageName: String(repeating: "p", count: package))
                return nil
            } catch {
                return error.field
            }
        }
        #expect(refused(.seconds(2_419_200), 256, 255) == nil)
        #expect(refused(.longest, 257) == "collapse_key")
        #expect(refused(.longest, 0, 256) == "restricted_package_name")
    }

    /// Texts that cannot be the value of an HTTP header, and texts that can. Source: RFC 9110, section 5.5.
    static let headerValues: [(text: String, isValue: Bool)] =
        ["a\rb", "a\nb", "a\r\nb", "a\0b", "a\u{7F}", "\u{1}", " a", "a ", "\ta", "a\t", " "]
        .map { ($0, false) } + ["", "a b", "a\tb", "ä", "⚓", "~!\"{}"].map { ($0, true) }

    @Test("GW-17 a value that cannot be a header is refused at its place", arguments: headerValues)
    func headers(_ text: String, _ isValue: Bool) {
        func field(_ message: Message, key: String = "") -> String? {
            do {
                _ = try variants(message, collapseKey: key)
                return nil
            } catch {
                return (error as? MartletError)?.field
            }
        }
        func expected(_ name: String) -> String? { isValue ? nil : name }
        let id = Message(apns: .init(collapseID: text))
        #expect(field(id) == expected("message.apns.headers.apns-collapse-id"))
        let topic = Message(webpush: .init(topic: text))
        #expect(field(topic) == expected("message.webpush.headers.Topic"))
        #expect(field(Message(data: ["a": "1"]), key: text) == expected("collapse_key"))
        let other = Message(apns: .init(options: [.init(key: "apns-other", value: text)]))
        #expect(field(other) == expected("message.apns.headers.apns-other"))
        // Android's key and other options are no headers.
        #expect(field(Message(android: .init(collapseKey: text))) == nil)
        #expect(field(Message(apns: .init(options: [.init(key: "label", value: text)]))) == nil)
    }

    @Test(
        "COL-1 GW-17 push services are told SEND's collapse key, and Apple the sender's expiration")
    func delivered() throws {
        var message = common
        #expect(
            try variants(message, collapseKey: "c").map {
                Message.deliveredCollapseKey(in: $0.body)
            } == ["c"])
        message.android = .init(data: [.init(key: "m", value: "4")], collapseKey: "k")
        message.apns = .init(
            expirationSeconds: 1_760_000_000, payload: .init(badge: 1),
            options: [.init(key: "o", value: "")])
        let all = try variants(message, collapseKey: "c")
        #expect(all.map { Message.deliveredCollapseKey(in: $0.body) } == [nil, "c", "c"])
        #expect(all.map { Message.deliveredExpiration(in: $0.body) } == [nil, 1_760_000_000, nil])
        // What a device reads is not changed by it.
        let without = try variants(message)
        #expect(try all.map(read) == without.map(read) && all.map(\.size) == without.map(\.size))
        // A topic's message without payload stays collapsible.
        let empty = Message(apns: .init(expirationSeconds: 1_760_000_000))
        #expect(try variants(empty, target: .topic).map(\.collapse) == [.app])
    }

    @Test("MSG-5 merged bodies agree with a naive merge of random messages")
    func naive() throws {
        var random = SeededGenerator(seed: 55)
        func text() -> String? {
            Bool.random(using: &random)
                ? nil : ["", "x", "⚓"].randomElement(using: &random)!
        }
        func entries() -> [Message.DataEntry] {
            ["a", "b", "c", "d"].shuffled(using: &random)
                .prefix(Int.random(in: 0...4, using: &random))
                .map { .init(key: $0, value: text() ?? "v") }
        }
        func notification() -> Message.Notification? {
            let made = Message.Notification(title: text(), body: text(), image: text())
            return made == Message.Notification() ? nil : made
        }
        func merge(
            _ message: Message, _ own: Message.Notification?, _ data: [Message.DataEntry]
        ) -> Message {
            var texts = message.notification ?? .init()
            texts.title = own?.title ?? texts.title
            texts.body = own?.body ?? texts.body
            texts.image = own?.image ?? texts.image
            let keys = Set(data.map(\.key))
            return Message(
                notification: texts == .init() ? nil : texts,
                data: message.data.filter { !keys.contains($0.key) } + data)
        }
        for _ in 0..<rounds(20_000) {
            let plain = Message(notification: notification(), data: entries())
            var message = plain
            var expected = [Platform.android: plain, .apple: plain, .web: plain]
            if Bool.random(using: &random) {
                let block = Message.Android(
                    notification: notification(), data: entries(), options: entries())
                message.android = block
                expected[.android] = merge(plain, block.notification, block.data)
                expected[.android]!.options = block.options
            }
            if Bool.random(using: &random) {
                let block = Message.APNS(
                    notification: notification(), data: entries(),
                    payload: .init(
                        subtitle: text(), badge: 7, sound: text(), contentAvailable: true,
                        aps: [.init(key: "alert", value: #"{"loc-key":"k"}"#)]),
                    options: entries())
                message.apns = block
                expected[.apple] = merge(plain, block.notification, block.data)
                expected[.apple]!.applePayload = block.payload
                expected[.apple]!.options = block.options
            }
            if Bool.random(using: &random) {
                let block = Message.WebPush(notification: notification(), data: entries())
                message.webpush = block
                expected[.web] = merge(plain, block.notification, block.data)
            }
            let all = try variants(message)
            var seen = PlatformSet()
            for variant in all {
                #expect(seen.isDisjoint(with: variant.platforms))
                seen.formUnion(variant.platforms)
                for platform in Platform.allCases where variant.platforms.contains(platform) {
                    #expect(try read(variant) == expected[platform])
                }
            }
            var reached = PlatformSet()
            if message.android != nil { reached.insert(.init(.android)) }
            if message.apns != nil { reached.insert(.init(.apple)) }
            if message.webpush != nil { reached.insert(.init(.web)) }
            let isForAll = reached.isEmpty || plain.notification != nil || !plain.data.isEmpty
            #expect(seen == (isForAll ? .all : reached))
            var writer = WireWriter()
            message.encode(into: &writer)
            #expect(try Message(decoding: writer.bytes, unknownTags: .refuse) == message)
        }
    }

    @Test("NET-3 random bytes in a block never trap, and what is accepted is read by a device")
    func hostile() throws {
        var random = SeededGenerator(seed: 56)
        var accepted = 0
        for _ in 0..<rounds(200_000) {
            var content: [UInt8] = []
            let tags: [UInt8] = [1, 2, 3, 4, 16, 17, 18, 19, 20, 21, 32, 33, 35, 38, 39, 40]
            for tag in tags where Int.random(in: 0...5, using: &random) == 0 {
                let count = Int.random(in: 0...9, using: &random)
                content += field(
                    tag, (0..<count).map { _ in UInt8.random(in: 0...3, using: &random) })
            }
            if Int.random(in: 0...3, using: &random) == 0 { content = Array(content.dropLast()) }
            let bytes = field(UInt8.random(in: 4...8, using: &random), content)
            guard let all = try? Message.variants(of: bytes, target: .topic) else { continue }
            accepted += 1
            for variant in all { _ = try read(variant) }
            _ = try Message(decoding: bytes, unknownTags: .refuse)
        }
        #expect(accepted > rounds(1000))
    }
}
