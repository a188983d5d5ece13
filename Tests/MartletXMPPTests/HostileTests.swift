// SPDX-License-Identifier: Apache-2.0
//
// Hostile peers at the XMPP port (NET-6, GW-15): they end, and an honest app server beside them notices nothing. Rests
// on XMPPWorld.

import Foundation
import Martlet
import MartletXMPP
import Testing

extension OverXMPP {
    @Suite("XMPP: hostile peers", .serialized, .timeLimit(.minutes(3)))
    struct HostileTests {
        /// Billion laughs, in the forms of an internal subset and of an external one.
        private static let laughs = """
            <?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">
            \((1..<10).map { "<!ENTITY lol\($0) \"\(String(repeating: "&lol\($0 - 1);", count: 10))\">" }
                .joined(separator: "\n"))]><lolz>&lol9;</lolz>
            """
        private static let outside = """
            <?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>
            """
        private static let recursive = """
            <!DOCTYPE a [<!ENTITY a "&b;"><!ENTITY b "&a;">]>\(StanzaPeer.header)<a>&a;</a>
            """

        @Test(
            "NET-6 hostile XML of strangers ends its stream, and nothing of it is expanded",
            arguments: [laughs, outside, recursive])
        func entities(text: String) async throws {
            try await XMPPWorld.run { world in
                let honest = try await world.newAppServer()
                for _ in 0..<20 {
                    let peer = try await world.newPeer()
                    try await peer.write(text)
                    let end = await peer.readToEnd()
                    #expect(end.contains("<restricted-xml "), "\(end)")
                    #expect(!end.contains("lollol") && !end.contains("root:"))
                    #expect(try await honest.ping() == "")
                }
            }
        }

        @Test("NET-6 what a stranger sends without end is cut off")
        func endless() async throws {
            try await XMPPWorld.run { world in
                let honest = try await world.newAppServer()
                for (start, piece) in [
                    (StanzaPeer.header, "<a>"), (StanzaPeer.header + "<a ", "b=\"c\" "),
                    (StanzaPeer.header + "<a>", "text"), ("<stream:stream ", "a:b='c' "),
                    (StanzaPeer.header, " "), (StanzaPeer.header + "<a b='", ">"),
                    (StanzaPeer.header, StanzaPeer.auth("x")),
                ] {
                    let peer = try await world.newPeer()
                    try? await peer.write(start)
                    // The write fails at last, or the text is over.
                    for _ in 0..<64 {
                        let text = String(repeating: piece, count: 4096 / piece.utf8.count)
                        guard (try? await peer.write(text)) != nil else { break }
                    }
                    let end = await peer.readToEnd()
                    // A peer that still writes may lose the last bytes of the server.
                    #expect(
                        end.contains("<policy-violation ") || !end.contains("<stream:error>"),
                        "\(start): \(end)")
                    #expect(try await honest.ping() == "")
                }
            }
        }

        @Test("NET-6 a signed-in app server that sends a stanza without end ends alone")
        func endlessStanza() async throws {
            try await XMPPWorld.run { world in
                let honest = try await world.newAppServer()
                for piece in ["<a>", "text ", "<a/>", "<![CDATA[x]]>"] {
                    let peer = try await world.newAppServer()
                    try? await peer.write("<message>")
                    for _ in 0..<64 {
                        let text = String(repeating: piece, count: 4096 / piece.utf8.count)
                        guard (try? await peer.write(text)) != nil else { break }
                    }
                    let end = await peer.readToEnd()
                    #expect(
                        end.contains("<policy-violation ") || !end.contains("<stream:error>"))
                    #expect(try await honest.ping() == "")
                }
            }
        }

        /// The address of hostile peers, beside that of the honest ones.
        private static let elsewhere = "127.0.0.2"

        @Test(
            "NET-6 strangers of an address that stall have few places, and app servers sign in beside them"
        )
        func stalling() async throws {
            let few = { (configuration: inout XMPPConfiguration) in
                configuration.strangersMax = 12
                configuration.strangersPerAddressMax = 8
            }
            try await XMPPWorld.run(few) { world in
                let first = try await world.newAppServer()
                // Bare connections, half a handshake, half a header, and half a sign-in.
                var stalled: [StanzaPeer] = []
                for number in 0..<60 {
                    if number % 3 == 0 {
                        let bare = try await StanzaPeer.connect(
                            port: world.port, trusting: nil, from: Self.elsewhere)
                        if number % 2 == 0 { try? await bare.write(bytes: [0x16, 3, 1]) }
                        stalled.append(bare)
                    } else if let peer = try? await world.newPeer(from: Self.elsewhere) {
                        try? await peer.write(
                            number % 3 == 1 ? "<stream:stream" : StanzaPeer.header + "<auth")
                        stalled.append(peer)
                    }
                }
                // The address has its part alone, and an app server that has signed in stays.
                while world.server.connectionCount > 9 {
                    try await Task.sleep(for: .milliseconds(5))
                }
                for _ in 0..<5 {
                    let honest = try await world.newAppServer()
                    #expect(try await honest.ping() == "")
                }
                #expect(try await first.ping() == "")
                withExtendedLifetime(stalled) {}
            }
        }

        @Test("NET-6 at the bound on strangers the address with most loses its oldest")
        func fullHouse() async throws {
            let few = { (configuration: inout XMPPConfiguration) in
                configuration.strangersMax = 4
                configuration.strangersPerAddressMax = 8
            }
            try await XMPPWorld.run(few) { world in
                let honest = try await world.newPeer()
                try await honest.open()
                var hostile: [StanzaPeer] = []
                for _ in 0..<8 {
                    let peer = try await world.newPeer(from: Self.elsewhere)
                    try await peer.open()
                    hostile.append(peer)
                }
                for peer in hostile.prefix(5) { _ = await peer.readToEnd() }
                try await honest.write(StanzaPeer.auth(world.plain()))
                _ = try await honest.read(until: "<success")
                // The last three are still strangers with places.
                for peer in hostile.suffix(3) {
                    try await peer.write(StanzaPeer.auth(world.plain()))
                    _ = try await peer.read(until: "<success")
                }
            }
        }

        @Test("NET-3 a stranger that does not sign in in time ends")
        func late() async throws {
            try await XMPPWorld.run({ $0.signInSeconds = 1 }) { world in
                let honest = try await world.newAppServer()
                let bare = try await StanzaPeer.connect(port: world.port, trusting: nil)
                let silent = try await world.newPeer()
                let half = try await world.newPeer()
                try await half.open()
                #expect(await half.readToEnd().contains("<connection-timeout "))
                #expect(await silent.readToEnd().contains("<connection-timeout "))
                #expect(await bare.readToEnd().isEmpty || true)
                #expect(try await honest.ping() == "")
            }
        }

        @Test("NET-6 an app server that does not read is not read from, and others are served")
        func unread() async throws {
            try await XMPPWorld.run { world in
                let honest = try await world.newAppServer()
                let greedy = try await world.newAppServer()
                await greedy.stopReading()
                let text = String(repeating: "x", count: 4000)
                // Each stanza comes back with its text. The writes stall at last.
                let writing = Task {
                    for _ in 0..<4000 { try? await greedy.say("{\"a\": \"\(text)\"}") }
                }
                for _ in 0..<200 { #expect(try await honest.ping() == "") }
                await greedy.drop()
                await writing.value
                #expect(try await honest.ping() == "")
            }
        }

        @Test(
            "GW-15 random bytes before and after the sign-in end their connection alone",
            arguments: 1...8)
        func randomBytes(seed: UInt64) async throws {
            var random = SeededNumbers(seed: seed)
            try await XMPPWorld.run { world in
                let honest = try await world.newAppServer()
                let bits = [
                    "<message>", "</message>", "<gcm xmlns=\"google:mobile:data\">", "</gcm>", "{",
                    "}",
                    "\"message_id\":\"1\",", "\"to\":\"a\"", "<iq type='get' id='1'>", "</iq>",
                    "&amp;",
                    "&#x0;", "<![CDATA[", "]]>", "<?x?>", "\0", "<", ">", "\u{10FFFF}", " ",
                ]
                for isSignedIn in [false, true] {
                    for _ in 0..<15 {
                        let peer = try await isSignedIn ? world.newAppServer() : world.newPeer()
                        if !isSignedIn { try? await peer.write(StanzaPeer.header) }
                        for _ in 0..<random.next(below: 30) {
                            try? await peer.write(bits[random.next(below: bits.count)])
                        }
                        #expect(try await honest.ping() == "")
                    }
                }
            }
        }
    }
}

/// Numbers from a seed. Source: SplitMix64, public domain.
struct SeededNumbers {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next(below bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((z ^ (z >> 31)) % UInt64(bound))
    }
}
