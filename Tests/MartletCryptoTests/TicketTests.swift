// SPDX-License-Identifier: Apache-2.0
//
// The claims of tickets, in tables. Rests on MartletCrypto.

import MartletBase
import MartletCrypto
import Testing

@Suite("Claims of tickets")
struct TicketTests {
    private static let now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private static let purpose = Ticket.Purpose(
        project: "tides", app: "com.example.tides", platform: .android)

    private func ticket(
        _ claims: String, header: String = #"{"alg":"HS256"}"#
    ) throws -> Ticket {
        func part(_ text: String) -> String { Base64URL.encode(Array(text.utf8)) }
        return try Ticket(parsing: part(header) + "." + part(claims) + ".AAAA")
    }

    private func claims(_ text: String) throws -> Ticket.Claims {
        try ticket(text).accepted(for: Self.purpose, at: Self.now)
    }

    @Test(
        "REG-7: claims that fit",
        arguments: [
            #"{"exp":1800000001}"#, #"{"exp":1800000000.5}"#, #"{"exp":1.8000864e9}"#,
            #"{"exp":1800000060,"nbf":1800000000,"iat":5,"iss":"app","sub":7}"#,
            #"{"exp":1800000060,"aud":"tides"}"#, #"{"exp":1800000060,"aud":["x","tides"]}"#,
            #"{"exp":1800000060,"app":"com.example.tides","platform":"android"}"#,
            #"{"exp":1800000060,"topics":[]}"#,
        ])
    func fit(_ text: String) throws { _ = try claims(text) }

    @Test(
        "REG-7: claims that do not fit are refused with PERMISSION_DENIED",
        arguments: [
            #"{}"#, #"{"exp":"1800000001"}"#, #"{"exp":1800000000}"#, #"{"exp":1800086401}"#,
            #"{"exp":-1}"#, #"{"exp":1e300}"#, #"{"exp":true}"#,
            #"{"exp":1800000060,"nbf":1800000001}"#, #"{"exp":1800000060,"nbf":"now"}"#,
            #"{"exp":1800000060,"aud":"other"}"#, #"{"exp":1800000060,"aud":["x"]}"#,
            #"{"exp":1800000060,"aud":7}"#,
            #"{"exp":1800000060,"app":"com.example.other"}"#, #"{"exp":1800000060,"app":1}"#,
            #"{"exp":1800000060,"platform":"apple"}"#, #"{"exp":1800000060,"jti":7}"#,
            #"{"exp":1800000060,"topics":"all"}"#, #"{"exp":1800000060,"topics":["a b"]}"#,
            #"{"exp":1800000060,"topics":[1]}"#, #"{"exp":1800000060,"topics":[""]}"#,
        ])
    func doNotFit(_ text: String) {
        let error = #expect(throws: MartletError.self) { try claims(text) }
        #expect(error?.word == .permissionDenied)
        #expect(error?.field == "registration")
    }

    @Test("TOP-10: a ticket names at most 64 topics")
    func topics() throws {
        func list(_ count: Int) -> String {
            let names = (0..<count).map { "\"t\($0)*\"" }.joined(separator: ",")
            return #"{"exp":1800000060,"topics":[\#(names)]}"#
        }
        #expect(try claims(list(64)).topics.count == 64)
        #expect(throws: MartletError.self) { try claims(list(65)) }
    }

    @Test("REG-7: tickets with one jti are one ticket; without it the signed text tells them apart")
    func identity() throws {
        let first = try claims(#"{"exp":1800000060,"jti":"7"}"#).identity
        #expect(try claims(#"{"exp":1800000061,"jti":"7"}"#).identity == first)
        #expect(try claims(#"{"exp":1800000060,"jti":"8"}"#).identity != first)
        let plain = try claims(#"{"exp":1800000060}"#).identity
        #expect(try claims(#"{"exp":1800000060}"#).identity == plain)
        #expect(try claims(#"{"exp":1800000061}"#).identity != plain)
    }

    @Test(
        "REG-7: headers without a known algorithm, with critical parts or repeated names are refused",
        arguments: [
            #"{}"#, #"{"alg":"none"}"#, #"{"alg":"hs256"}"#, #"{"alg":"HS384"}"#, #"{"alg":7}"#,
            #"{"alg":"HS256","crit":["exp"]}"#, #"{"alg":"HS256","kid":7}"#,
            #"{"alg":"none","alg":"HS256"}"#, #"[]"#, #""HS256""#,
        ])
    func headers(_ header: String) {
        #expect(throws: MartletError.self) {
            try ticket(#"{"exp":1800000060}"#, header: header)
        }
    }

    @Test("REG-7: text that is no ticket is refused and never a crash")
    func noTickets() {
        let texts = [
            "", ".", "..", "...", "a.b.c", "e30.e30", "e30.e30.", "e30=.e30.AAAA", "e30.e30.AA AA",
            "e30.e30.AAAA.AAAA", String(repeating: "A", count: 9000),
        ]
        for text in texts {
            #expect(throws: MartletError.self) { try Ticket(parsing: text) }
        }
    }

    @Test("REG-7: kid names the key")
    func keyID() throws {
        let named = try ticket("{}", header: #"{"alg":"ES256","kid":"k1"}"#)
        #expect(named.keyID == "k1")
        #expect(named.algorithm == .es256)
    }
}
