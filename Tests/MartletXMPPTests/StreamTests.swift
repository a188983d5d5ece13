// SPDX-License-Identifier: Apache-2.0
//
// The stream of an app server (GW-10): its headers, its sign-in, its resource, and every error by which it ends. Rests
// on XMPPWorld.

import Foundation
import Martlet
import MartletXMPP
import Testing

extension OverXMPP {
    @Suite("XMPP: streams", .serialized, .timeLimit(.minutes(3)))
    struct StreamTests {
        /// The condition of the error that ends a stream.
        private func condition(_ text: String) -> String? {
            text.firstMatch(of: /<stream:error><([a-z-]+)[ ]/).map { String($0.1) }
        }

        private static let header = StanzaPeer.header
        private static let start = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams' "

        @Test("GW-10 an app server opens a stream, signs in, and binds a resource of its own")
        func opening() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                try await peer.write(StanzaPeer.header)
                let header = try await peer.read(until: "version=\"1.0\" xml:lang=\"en\">")
                #expect(header.contains(" from=\"fcm.googleapis.com\""))
                let offered = try await peer.read(until: "</stream:features>")
                #expect(offered.contains("<mechanism>PLAIN</mechanism>"))
                try await peer.write(StanzaPeer.auth(world.plain()))
                _ = try await peer.read(until: "<success")
                let features = try await peer.open()
                #expect(features.contains("<bind "))
                #expect(features.contains("<session "))
                let bind = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"
                try await peer.write("<iq type='set' id='1'>\(bind)</iq>")
                let bound = try await peer.read(until: "</iq>")
                #expect(bound.contains("<jid>\(world.senderID)@fcm.googleapis.com/"))
                let other = try await world.newPeer()
                let jids = try await [
                    world.newAppServer().ping(), other.signIn(world.plain()),
                    world.newPeer().signIn(world.plain()),
                ]
                #expect(jids[1].contains("/test-") && jids[1] != jids[2])
                let session = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>"
                try await peer.write("<iq type='set' id='2'>\(session)</iq>")
                #expect(try await peer.read(until: "</iq>").contains("type=\"result\" id=\"2\""))
                try await peer.write("<iq type='set' id='3'>\(bind)</iq>")
                #expect(try await peer.read(until: "</iq>").contains("<not-allowed "))
                try await peer.write("</stream:stream>")
                #expect(await peer.readToEnd() == "</stream:stream>")
            }
        }

        @Test(
            "NET-3 a stream that breaks a rule ends with the error of the rule",
            arguments: [
                ("nonsense>", "not-well-formed"),
                ("<stream xmlns='jabber:client' version='1.0'>", "invalid-namespace"),
                ("<s:s xmlns:s='http://etherx.jabber.org/streams' version='1.0'>", "bad-format"),
                (start + "xmlns='jabber:client'>", "unsupported-version"),
                (start + "version='0.9'>", "unsupported-version"),
                (
                    start + "version='1.0' to='\(String(repeating: "x", count: 1024))'>",
                    "improper-addressing"
                ),
                ("<?xml version='1.0' encoding='latin-1'?>\(header)", "unsupported-encoding"),
                ("<!DOCTYPE a>\(header)", "restricted-xml"),
                ("<!DOCTYPE a [<!ENTITY b 'c'>]>\(header)", "restricted-xml"),
                ("\(header)<!-- a -->", "restricted-xml"),
                ("\(header)<?a b?>", "restricted-xml"),
                ("\(header)text", "bad-format"),
                ("\(header)<iq type='get' id='1' xmlns='jabber:client'/>", "not-authorized"),
                ("\(header)<message><body>a</body></message>", "not-authorized"),
                (
                    "\(header)<a xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
                    "unsupported-stanza-type"
                ),
                ("\(header)<a></b>", "not-well-formed"),
                ("\(header)<a>&unknown;</a>", "not-well-formed"),
                ("\(header)<a b='1' b='2'/>", "not-well-formed"),
                ("\(header)<a:b/>", "not-well-formed"),
                ("\(header)<a>\u{FFFF}</a>", "not-well-formed"),
            ])
        func errors(text: String, expected: String) async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                try await peer.write(text)
                let end = await peer.readToEnd()
                #expect(condition(end) == expected, "\(end)")
                #expect(end.hasSuffix("</stream:stream>"))
            }
        }

        @Test("NET-3 bytes that are no UTF-8 end a stream")
        func brokenText() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                try await peer.write(bytes: Array(Self.header.utf8) + [0x3C, 0xFF, 0xC0])
                #expect(condition(await peer.readToEnd()) == "not-well-formed")
            }
        }

        @Test(
            "NET-3 a stream in another encoding ends with the error for it, in one piece or byte by byte",
            arguments: [.utf16, .utf16BigEndian, .utf16LittleEndian, .utf32] as [String.Encoding],
            [true, false])
        func otherEncodings(encoding: String.Encoding, isWhole: Bool) async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                let bytes = Array(try #require(Self.header.data(using: encoding)))
                if isWhole {
                    try await peer.write(bytes: bytes)
                } else {
                    // The first byte may say it already, and end the stream.
                    for byte in bytes.prefix(2) { try? await peer.write(bytes: [byte]) }
                }
                #expect(condition(await peer.readToEnd()) == "unsupported-encoding")
            }
        }

        @Test(
            "NET-3 a stanza that breaks a rule ends the stream of a signed-in app server",
            arguments: [
                ("<message xmlns='jabber:server'/>", "invalid-namespace"),
                ("<letter/>", "unsupported-stanza-type"),
                (
                    "<message \((0..<33).map { "a\($0)=''" }.joined(separator: " "))/>",
                    "policy-violation"
                ),
                (String(repeating: "<message>", count: 20), "policy-violation"),
                ("<message>\(String(repeating: "<a/>", count: 64))</message>", "policy-violation"),
                ("<message a='\(String(repeating: "x", count: 9000))", "policy-violation"),
                (
                    "<message><gcm>\(String(repeating: "x", count: 140_000))",
                    "policy-violation"
                ),
            ])
        func stanzas(text: String, expected: String) async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newAppServer()
                try? await peer.write(text)
                #expect(condition(await peer.readToEnd()) == expected)
            }
        }

        @Test("GW-10 a message before a resource is bound ends the stream")
        func messageTooEarly() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                try await peer.open()
                try await peer.write(StanzaPeer.auth(world.plain()))
                _ = try await peer.read(until: "<success")
                try await peer.open()
                try await peer.say("{}")
                #expect(condition(await peer.readToEnd()) == "not-authorized")
            }
        }

        @Test("GW-10 stanzas may come in any pieces, with whitespace in between")
        func pieces() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                let text = #"{"to": "TOKEN", "message_id": "ü€𝄞", "data": {"a": "<&>"}}"#
                    .replacing("TOKEN", with: token)
                let stanza =
                    "<message><g:gcm xmlns:g='google:mobile:data'><![CDATA[\(text)]]></g:gcm>"
                for (size, spaces) in [(1, ""), (2, " "), (3, " \n\t"), (7, ""), (50, " \n\t")] {
                    let whole = Array((spaces + stanza + "</message>").utf8)
                    for start in stride(from: 0, to: whole.count, by: size) {
                        try await peer.write(bytes: Array(whole[start...].prefix(size)))
                        // The server reads a piece alone.
                        try await Task.sleep(for: .milliseconds(1))
                    }
                    let answer = try await peer.hear()
                    #expect(answer.text("message_type") == "ack", "\(answer.text)")
                    #expect(answer.text("message_id") == "ü€𝄞")
                }
            }
        }

        // MARK: The sign-in

        @Test("REG-5 a sender ID and a server key of its project sign in, in every form")
        func credentials() async throws {
            try await XMPPWorld.run { world in
                let id = String(world.senderID)
                for (user, identity) in [
                    ("\(id)@fcm.googleapis.com", ""), (id, ""), ("\(id)@gcm.googleapis.com", id),
                    (id, "\(id)@example.org"),
                ] {
                    let peer = try await world.newPeer()
                    try await peer.signIn(world.plain(user: user, identity: identity))
                }
                // Without a credential in `auth`, the server asks for it.
                let peer = try await world.newPeer()
                try await peer.open()
                try await peer.write(StanzaPeer.auth(""))
                _ = try await peer.read(
                    until: "<challenge xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\"/>")
                let response =
                    "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(world.plain())</response>"
                try await peer.write(response)
                _ = try await peer.read(until: "<success")
            }
        }

        @Test("REG-5 a refused sign-in names the reason, and may be repeated")
        func refusedCredentials() async throws {
            let log = XMPPLog()
            var secrets: [String] = []
            try await XMPPWorld.run({ $0.logger = log.logger }) { world in
                _ = try await world.broker.createProject("other")
                let foreign = try await world.broker.createServerKey(named: "x", in: "other").text
                let account = try ServiceAccountFile(
                    projectID: XMPPWorld.project, tokenURI: "http://h/token")
                try await world.broker.createServiceAccount(
                    keyID: account.keyID, named: "x", clientEmail: account.clientEmail,
                    publicKey: account.publicKey, in: XMPPWorld.project)
                let token = try world.broker.mintAccessToken(for: account.keyID)
                let revoked = try await world.broker.createServerKey(
                    named: "y", in: XMPPWorld.project)
                try await world.broker.revokeServerKey(revoked.id, in: XMPPWorld.project)
                secrets = [foreign, token, revoked.text, world.serverKey, "wrong-secret"]
                let base64 = { (text: String) in Data(text.utf8).base64EncodedString() }
                let rows = [
                    (StanzaPeer.auth(world.plain(key: "wrong-secret")), "not-authorized"),
                    (StanzaPeer.auth(world.plain(key: foreign)), "not-authorized"),
                    (StanzaPeer.auth(world.plain(key: token)), "not-authorized"),
                    (StanzaPeer.auth(world.plain(key: revoked.text)), "not-authorized"),
                    (StanzaPeer.auth(world.plain(user: "123456789012")), "not-authorized"),
                    (StanzaPeer.auth(world.plain(identity: "1")), "invalid-authzid"),
                    (StanzaPeer.auth(world.plain(), mechanism: "X-OAUTH2"), "invalid-mechanism"),
                    (StanzaPeer.auth("-"), "incorrect-encoding"),
                    (StanzaPeer.auth("a$=="), "incorrect-encoding"),
                    (StanzaPeer.auth("="), "malformed-request"),
                    (StanzaPeer.auth(base64("one")), "malformed-request"),
                    (StanzaPeer.auth(base64("\0\0key")), "malformed-request"),
                    (StanzaPeer.auth(base64("\0user\0")), "malformed-request"),
                    ("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>", "aborted"),
                ]
                for (text, expected) in rows {
                    let peer = try await world.newPeer()
                    try await peer.open()
                    try await peer.write(text)
                    let failure = try await peer.read(until: "</failure>")
                    #expect(failure.contains("<\(expected)/>"), "\(text)")
                    try await peer.write(StanzaPeer.auth(world.plain()))
                    _ = try await peer.read(until: "<success")
                }
            }
            #expect(log.all.contains { $0.contains("a credential was refused") })
            for secret in secrets {
                #expect(!log.all.contains { $0.contains(secret) })
            }
        }

        @Test("REG-10 three refused keys end the connection")
        func repeatedRefusals() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newPeer()
                try await peer.open()
                for _ in 0..<3 { try await peer.write(StanzaPeer.auth(world.plain(key: "no"))) }
                let end = await peer.readToEnd()
                #expect(end.split(separator: "<not-authorized/>").count == 4)
                #expect(condition(end) == "policy-violation")
            }
        }

        @Test(
            "REG-10 too many wrong keys of an address wait, and the right key is not kept waiting"
        )
        func heldRefusals() async throws {
            try await XMPPWorld.run(broker: { $0.limits.refusalsPerMinutePerAddress = 1 }) {
                world in
                let hostile = try await world.newPeer()
                try await hostile.open()
                try await hostile.write(StanzaPeer.auth(world.plain(key: "no")))
                _ = try await hostile.read(until: "</failure>")
                try await hostile.write(StanzaPeer.auth(world.plain(key: "no")))
                // The second refusal waits. Until it has come, this app server signs in and sends.
                let honest = try await world.newAppServer()
                let answer = try await honest.ask(
                    #"{"to": "/topics/t", "message_id": "1", "data": {}}"#)
                #expect(answer.text("message_type") == "ack")
                #expect(try await hostile.read(until: "</failure>").contains("<not-authorized/>"))
            }
        }

        @Test("QUO-3 a project has so many connections at a time, and so many new ones in a minute")
        func connections() async throws {
            let change = { (configuration: inout BrokerConfiguration) in
                configuration.limits.senderConnectionsMax = 2
                configuration.limits.senderConnectionsPerMinute = 4
            }
            try await XMPPWorld.run(broker: change) { world in
                func failure() async throws -> String {
                    let peer = try await world.newPeer()
                    try await peer.open()
                    try await peer.write(StanzaPeer.auth(world.plain()))
                    return try await peer.read(until: "</failure>")
                }
                let first = try await world.newAppServer()
                let second = try await world.newAppServer()
                let tooMany = try await failure()
                #expect(tooMany.contains("<temporary-auth-failure/>"))
                #expect(tooMany.contains("sender-connections-max"))
                for peer in [first, second] {
                    try await peer.write("</stream:stream>")
                    _ = await peer.readToEnd()
                }
                let third = try await world.newAppServer()
                try await third.write("</stream:stream>")
                _ = await third.readToEnd()
                let fourth = try await world.newAppServer()
                #expect(try await failure().contains("sender-connections-per-minute"))
                withExtendedLifetime(fourth) {}
            }
        }

        @Test("GW-10 what follows a credential without waiting for its answer ends the stream")
        func impatience() async throws {
            try await XMPPWorld.run(broker: { $0.limits.senderConnectionsMax = 1 }) { world in
                let peer = try await world.newPeer()
                try await peer.open()
                try await peer.write(StanzaPeer.auth(world.plain()) + "<iq/>")
                #expect(condition(await peer.readToEnd()) == "not-well-formed")
                // The connection counts no more.
                #expect(try await world.newAppServer().ping() == "")
            }
        }

        // MARK: Requests for information

        @Test("GW-10 an app server pings; other services are refused")
        func requests() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newAppServer()
                #expect(try await peer.ping() == "")
                for (text, expected) in [
                    (
                        "<iq type='get' id='a'><query xmlns='jabber:iq:roster'/></iq>",
                        "service-unavailable"
                    ),
                    (
                        "<iq type='set' id='a'><ping xmlns='urn:xmpp:ping'/></iq>",
                        "service-unavailable"
                    ),
                    ("<iq type='get'><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
                    ("<iq type='get' id='a'/>", "bad-request"),
                    ("<iq id='a'><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
                ] {
                    try await peer.write(text)
                    let answer = try await peer.read(until: "</iq>")
                    #expect(answer.contains("type=\"error\"") && answer.contains("<\(expected) "))
                }
                // Presence and answers are taken without a word.
                try await peer.write("<presence/><iq type='result' id='x'/> <iq type='error'/>")
                #expect(try await peer.ping() == "")
            }
        }

        @Test(
            "NET-2 a silent app server is pinged, stays while it answers, and ends when it does not"
        )
        func silence() async throws {
            try await XMPPWorld.run({ $0.silenceSeconds = 1 }) { world in
                let peer = try await world.newAppServer()
                for _ in 0..<2 {
                    let ping = try await peer.read(until: "</iq>")
                    #expect(ping.contains("<ping xmlns=\"urn:xmpp:ping\"/>"))
                    try await peer.write("<iq type='result' id='martlet-ping'/>")
                }
                #expect(condition(await peer.readToEnd()) == "connection-timeout")
            }
        }

        // MARK: The end

        @Test("OPS-10 the broker's metrics have open connections, messages and ended streams")
        func metrics() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newAppServer()
                _ = try await peer.ask(#"{"to": "/topics/t", "message_id": "1"}"#)
                _ = try await peer.ask(#"{"to": "nobody", "message_id": "2"}"#)
                try await world.sendUpstream("m", from: try await world.newToken())
                _ = try await peer.hear()
                let broken = try await world.newPeer()
                try await broken.write("nonsense>")
                _ = await broken.readToEnd()
                let text = world.broker.metricsText
                for line in [
                    "martlet_xmpp_messages_total{kind=\"ack\"} 1",
                    "martlet_xmpp_messages_total{kind=\"nack\"} 1",
                    "martlet_xmpp_messages_total{kind=\"upstream\"} 1",
                    "martlet_xmpp_stream_errors_total{condition=\"not-well-formed\"} 1",
                    "martlet_xmpp_connections ",
                ] {
                    #expect(text.contains(line), "\(line)")
                }
            }
        }

        @Test("REG-9 a revoked key ends its connections, and nothing more is accepted over them")
        func revocation() async throws {
            try await XMPPWorld.run { world in
                let other = try await world.broker.createServerKey(
                    named: "other", in: XMPPWorld.project)
                let peer = try await world.newAppServer()
                let staying = try await world.newPeer()
                try await staying.signIn(world.plain(key: other.text))
                try await world.broker.revokeServerKey(world.keyID, in: XMPPWorld.project)
                // Whatever is sent from here on must not be accepted.
                try? await peer.say(#"{"to": "/topics/t", "message_id": "late", "data": {}}"#)
                let end = await peer.readToEnd()
                #expect(condition(end) == "not-authorized")
                #expect(!end.contains("&quot;ack&quot;"))
                let answer = try await staying.ask(
                    #"{"to": "/topics/t", "message_id": "1", "data": {}}"#)
                #expect(answer.text("message_type") == "ack")
            }
        }
    }
}
