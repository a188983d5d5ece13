// SPDX-License-Identifier: Apache-2.0
//
// HTTP requests without a credential, or with a credential that has ended: they take nothing from others (GW-15, REG-9,
// REG-10). Rests on ServedGateway.

import Foundation
import Martlet
import MartletGateway
import MartletThreads
import Testing

extension OverHTTP {
    @Suite("Gateway: strangers", .serialized, .timeLimit(.minutes(3)))
    struct StrangerTests {
        private static let send = "/v1/projects/tides/messages:send"
        private static let message = #"{"message": {"topic": "weather", "data": {"n": "1"}}}"#

        private func bearer(_ served: ServedGateway) -> [(String, String)] {
            [("Authorization", "Bearer \(served.serverKey)")]
        }

        private func sends(_ served: ServedGateway) throws -> Bool {
            let peer = try served.peer()
            peer.request("POST", Self.send, headers: bearer(served), Self.message)
            return try peer.answer().status == 200
        }

        private func head(
            _ target: String, _ byteCount: Int, _ headers: [(String, String)] = []
        ) -> String {
            "POST \(target) HTTP/1.1\r\nHost: h\r\nContent-Length: \(byteCount)\r\n"
                + headers.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n"
        }

        @Test(
            "GW-15 an announced body costs nothing until its bytes come, with a credential or without"
        )
        func announcedBodies() async throws {
            try await ServedGateway.run({ $0.bodyMegabytesMax = 1 }) { served in
                var idle: [HTTPPeer] = []
                for number in 0..<200 {
                    let peer = try served.peer()
                    peer.write(
                        head(Self.send, 500_000, number % 2 == 0 ? bearer(served) : []) + "{")
                    idle.append(peer)
                }
                #expect(try sends(served))
                withExtendedLifetime(idle) {}
            }
        }

        @Test("GW-15 of a body without a credential nothing is kept")
        func refusedBodies() async throws {
            try await ServedGateway.run({ $0.bodyMegabytesMax = 1 }) { served in
                let part = String(repeating: "x", count: 400_000)
                var hostile: [HTTPPeer] = []
                for _ in 0..<10 {
                    let peer = try served.peer()
                    peer.write(head(Self.send, 500_000, [("Authorization", "Bearer no")]) + part)
                    hostile.append(peer)
                }
                #expect(try sends(served))
                // The connection is of use again.
                for peer in hostile.prefix(2) {
                    peer.write(String(repeating: "x", count: 100_000))
                    #expect(try peer.answer().status == 401)
                    peer.request("POST", Self.send, headers: bearer(served), Self.message)
                    #expect(try peer.answer().status == 200)
                }
            }
        }

        @Test("OPS-5 the bodies of one project hold at most half of the memory for bodies")
        func projectBodies() async throws {
            try await ServedGateway.run({ $0.bodyMegabytesMax = 1 }) { served in
                _ = try await served.broker.createProject("other")
                let other = try await served.broker.createServerKey(named: "k", in: "other")
                // Any other body is then too much, and before that none is. A body that is read while another is
                // being answered may itself be the one that is too much: then a new one takes its place.
                let part = String(repeating: "x", count: 499_000)
                var first = try served.peer()
                var refused = 0
                for attempt in 0..<1000 where refused == 0 {
                    if attempt % 100 == 0 {
                        first = try served.peer()
                        first.write(head(Self.send, 500_000, bearer(served)) + part)
                    }
                    let second = try served.peer()
                    second.request(
                        "POST", Self.send, headers: bearer(served),
                        "{\"x\":\"\(String(repeating: "x", count: 26_000))\"}")
                    refused = try second.answer().status == 503 ? 1 : 0
                }
                #expect(refused == 1)
                let neighbour = try served.peer()
                neighbour.request(
                    "POST", "/v1/projects/other/messages:send",
                    headers: [("Authorization", "Bearer \(other.text)")],
                    "{\"message\":{\"topic\":\"t\",\"data\":{\"x\":\"y\"}}}")
                #expect(try neighbour.answer().status == 200)
                // The rest of the first body ends the hold.
                first.write(String(repeating: "x", count: 1000))
                #expect(try first.answer().status == 400)
                #expect(try sends(served))
            }
        }

        @Test("GW-15 an assertion, a credential and the bodies of strangers are bounded")
        func assertions() async throws {
            try await ServedGateway.run { served in
                let long = try served.peer()
                long.request(
                    "POST", "/token", "assertion=" + String(repeating: "x", count: 500_000))
                #expect(try long.answer().status == 413)
                let key = try served.peer()
                key.request(
                    "POST", Self.send,
                    headers: [("Authorization", "Bearer " + String(repeating: "k", count: 8000))],
                    "{}")
                #expect(try key.answer().status == 401)
                // Unfinished bodies of one address have a part of the memory of strangers.
                var idle: [HTTPPeer] = []
                for _ in 0..<60 {
                    let peer = try served.peer()
                    peer.write(head("/token", 16_000) + String(repeating: "x", count: 15_000))
                    idle.append(peer)
                }
                // The loops are not in step: any of the peers is refused.
                while served.broker.statistics.turnedAwayCount == 0 {}
                let late = try served.peer()
                late.write(head("/token", 16_000) + String(repeating: "x", count: 15_000))
                #expect(try late.answer().status == 503)
                #expect(try sends(served))
                withExtendedLifetime(idle) {}
            }
        }

        /// The connections of unfinished bodies of 16,300 bytes, each of one client behind a proxy.
        private func unfinished(_ hosts: [String], _ served: ServedGateway) throws -> [HTTPPeer] {
            try hosts.map { host in
                let peer = try served.peer()
                peer.write(
                    head("/token", 16_384, [("X-Forwarded-For", host)])
                        + String(repeating: "x", count: 16_300))
                return peer
            }
        }

        private func strangerBytes(_ served: ServedGateway) throws -> Int {
            try figure("martlet_stranger_bytes", served)
        }

        private func figure(_ name: String, _ served: ServedGateway) throws -> Int {
            let peer = try served.peer()
            peer.request("GET", "/metrics")
            let lines = try peer.answer().body.split(separator: "\n")
            let line = try #require(lines.first { $0.hasPrefix(name + " ") })
            return try #require(line.split(separator: " ").last.flatMap { Int($0) })
        }

        @Test("GW-15 unfinished bodies of a few addresses do not close /token to others")
        func fullMemory() async throws {
            try await ServedGateway.run(broker: {
                $0.proxies = [AddressPrefix("127.0.0.0/8")!]
            }) { served in
                let hosts = (0..<310).map { "192.0.2.\($0 % 10 + 1)" }
                let hostile = try unfinished(hosts, served)
                var most = 0
                for number in 0..<20 {
                    // The figures are of a moment ago.
                    try await Task.sleep(for: RenderedMetrics.life / 10)
                    most = max(most, try strangerBytes(served))
                    let peer = try served.peer()
                    peer.request(
                        "POST", "/token", headers: [("X-Forwarded-For", "203.0.113.\(number)")],
                        "grant_type=x&assertion=y")
                    #expect(try peer.answer().status == 400)
                }
                #expect(most > Limits.httpStrangerBytesMax / 2)
                #expect(most <= Limits.httpStrangerBytesMax)
                withExtendedLifetime(hostile) {}
            }
        }

        @Test("GW-15 the hosts of one IPv6 network have one part of the memory of strangers")
        func network() async throws {
            try await ServedGateway.run(broker: {
                $0.proxies = [AddressPrefix("127.0.0.0/8")!]
            }) { served in
                let peers = try unfinished((1...60).map { "2001:db8::\($0)" }, served)
                // The loops are not in step: any of the peers is refused, and the figures come a little later.
                while try strangerBytes(served) < Limits.httpStrangerBytesPerAddressMax - 20_000 {}
                #expect(try figure("martlet_strangers_turned_away_total", served) > 0)
                // The broker tells the same on the port of `--metrics`.
                #expect(served.broker.statistics.turnedAwayCount > 0)
                #expect(served.broker.statistics.strangerBytes > 0)
                #expect(
                    !served.broker.metricsText.contains(
                        "martlet_strangers_turned_away_total 0\n"))
                #expect(try strangerBytes(served) <= Limits.httpStrangerBytesPerAddressMax + 4096)
                withExtendedLifetime(peers) {}
            }
        }

        /// A WebSocket, and the beginning of a message of 16,384 bytes on it.
        private func webSocket(_ served: ServedGateway, bytes: Int) throws -> HTTPPeer {
            let peer = try served.peer()
            peer.request(
                "GET", "/socket",
                headers: [
                    ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                    ("Sec-WebSocket-Version", "13"),
                ])
            #expect(try peer.answer().status == 101)
            peer.write([0x81, 0xFE, 0x40, 0, 0, 0, 0, 0] + [UInt8](repeating: 0x20, count: bytes))
            return peer
        }

        @Test("GW-13 GW-15 unfinished messages on WebSockets are memory of strangers")
        func unfinishedMessages() async throws {
            try await ServedGateway.run(doors: [SocketDoor()]) { served in
                var peers: [HTTPPeer] = []
                // One is too many.
                for _ in 0..<33 { peers.append(try webSocket(served, bytes: 16_000)) }
                while served.broker.statistics.turnedAwayCount == 0 {}
                while try strangerBytes(served) < Limits.httpStrangerBytesPerAddressMax - 20_000 {}
                #expect(try strangerBytes(served) <= Limits.httpStrangerBytesPerAddressMax)
                #expect(try sends(served))
                // A whole message counts no more.
                for peer in peers { peer.write([UInt8](repeating: 0x20, count: 384)) }
                while try strangerBytes(served) > 4096 {}
            }
        }

        @Test("GW-13 NET-6 a message on a WebSocket has the time of a request")
        func slowMessages() async throws {
            try await ServedGateway.run(doors: [SocketDoor()], { $0.requestSeconds = 1 }) {
                served in
                try webSocket(served, bytes: 16_383).end()
            }
        }

        @Test("GW-15 an address cannot take all connections")
        func connections() async throws {
            try await ServedGateway.run({ $0.connectionsPerAddressMax = 5 }) { served in
                // Each waits for the answer to an unfinished request.
                var busy = try (0..<5).map { _ in try served.peer() }
                for peer in busy {
                    peer.write(
                        head("/token", 2).replacing(
                            "\r\n\r\n", with: "\r\nExpect: 100-continue\r\n\r\n"))
                    #expect(try peer.answer().status == 100)
                }
                try served.peer().end()
                busy.removeAll()
                var isServed = false
                for _ in 0..<1000 where !isServed {
                    isServed = (try? sends(served)) == true
                }
                #expect(isServed)
            }
        }

        @Test(
            "GW-15 connections of an address that ask nothing make room for others of the address",
            arguments: ["", "GET /hea", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"])
        func sharedAddress(said: String) async throws {
            try await ServedGateway.run({ $0.connectionsPerAddressMax = 5 }) { served in
                let caller = try served.peer()
                caller.request("POST", Self.send, headers: bearer(served), Self.message)
                #expect(try caller.answer().status == 200)
                var idle: [HTTPPeer] = []
                for _ in 0..<12 {
                    let peer = try served.peer()
                    peer.write(said)
                    if said.hasSuffix("\r\n\r\n") { #expect(try peer.answer().status == 200) }
                    idle.append(peer)
                }
                // A loop that is behind may yet accept silent ones, and would end this one for them.
                while served.broker.statistics.turnedAwayCount < 12 - 5 {}
                for _ in 0..<10 { #expect(try sends(served)) }
                // The oldest went first, and the caller with a right credential stays.
                try idle[0].end()
                caller.request("POST", Self.send, headers: bearer(served), Self.message)
                #expect(try caller.answer().status == 200)
            }
        }

        @Test("GW-15 silent connections make room, and a caller with a right credential stays")
        func room() async throws {
            try await ServedGateway.run({ $0.connectionsMax = 16 }) { served in
                let caller = try served.peer()
                caller.request("POST", Self.send, headers: bearer(served), Self.message)
                #expect(try caller.answer().status == 200)
                let idle = try (0..<40).map { _ in try served.peer() }
                for _ in 0..<10 { #expect(try sends(served)) }
                try idle[0].end()
                caller.request("POST", Self.send, headers: bearer(served), Self.message)
                #expect(try caller.answer().status == 200)
                #expect(try figure("martlet_strangers_turned_away_total", served) >= 40 - 16)
            }
        }

        @Test("GW-15 exchanges of assertions have a part of their own, and are bounded")
        func exchanges() async throws {
            try await ServedGateway.run({ $0.requestsMax = 0 }) { served in
                let peer = try served.peer()
                peer.request("POST", "/token", "grant_type=x&assertion=y")
                let answer = try peer.answer()
                #expect(answer.status == 503)
                #expect(answer.json["error"] == .string("temporarily_unavailable"))
            }
        }

        @Test("REG-9 a revoked key sends nothing more over an open connection, whatever was begun")
        func revoked() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let token = try served.broker.mintAccessToken(for: account.file.keyID)
                let other = try await served.broker.createServerKey(
                    named: "other", in: ServedGateway.project)
                for (credential, revoke) in [
                    (
                        other.text,
                        { try await served.broker.revokeServerKey(other.id, in: "tides") }
                    ),
                    (
                        token,
                        {
                            try await served.broker.revokeServiceAccount(
                                account.file.keyID, in: "tides")
                        }
                    ),
                ] as [(String, () async throws -> Void)] {
                    let headers = [("Authorization", "Bearer \(credential)")]
                    let open = try served.peer()
                    open.request("POST", Self.send, headers: headers, Self.message)
                    #expect(try open.answer().status == 200)
                    let begun = try served.peer()
                    begun.write(head(Self.send, Self.message.utf8.count, headers))
                    begun.write(String(Self.message.prefix(10)))
                    try await Task.sleep(for: .milliseconds(700))
                    try await revoke()
                    begun.write(String(Self.message.dropFirst(10)))
                    #expect(try begun.answer().status == 401)
                    open.request("POST", Self.send, headers: headers, Self.message)
                    #expect(try open.answer().status == 401)
                }
            }
        }

        @Test("REG-9 an expired access token sends nothing more over an open connection")
        func expired() async throws {
            let clock = TestClock()
            try await ServedGateway.run(clock: clock) { served in
                let account = try await served.newAccount()
                let token = try served.broker.mintAccessToken(
                    for: account.file.keyID, lifeSeconds: 60)
                let peer = try served.peer()
                for status in [200, 401] {
                    peer.request(
                        "POST", Self.send, headers: [("Authorization", "Bearer \(token)")],
                        Self.message)
                    #expect(try peer.answer().status == status)
                    clock.advance(seconds: 61)
                }
            }
        }

        @Test(
            "REG-10 after some wrong credentials of an address further ones wait, and others do not"
        )
        func wrongCredentials() async throws {
            try await ServedGateway.run(broker: {
                $0.limits.refusalsPerMinutePerAddress = 3
                $0.proxies = [AddressPrefix("127.0.0.0/8")!]
            }) { served in
                func ask(_ host: String, _ key: String) throws -> HTTPPeer {
                    let peer = try served.peer()
                    peer.request(
                        "POST", Self.send,
                        headers: [
                            ("Authorization", "Bearer \(key)"),
                            ("X-Forwarded-For", "203.0.113.9, \(host)"),
                            // Of the client itself: the proxy does not set it.
                            ("Forwarded", "for=203.0.113.50"),
                        ], Self.message)
                    return peer
                }
                for _ in 0..<3 { #expect(try ask("192.0.2.1", "no").answer().status == 401) }
                let began = ContinuousClock.now
                let waiting = try ask("192.0.2.1", "no")
                #expect(try ask("192.0.2.2", "no").answer().status == 401)
                #expect(try ask("192.0.2.1", served.serverKey).answer().status == 200)
                #expect(try waiting.answer().status == 401)
                #expect(ContinuousClock.now - began >= .seconds(4))
            }
        }
    }
}
