// SPDX-License-Identifier: Apache-2.0
//
// The client that proxies name, as a table of headers. Rests on ForwardedClient alone.

import MartletBase
import MartletGateway
import Testing

@Suite("Clients behind proxies")
struct ForwardedClientTests {
    private static let forwarded = "forwarded"
    private static let list = "x-forwarded-for"

    /// The proxies of the tests: 10.0.0.0/8, and fd00::1.
    private func isProxy(_ address: PeerAddress) -> Bool {
        let net = PeerAddress("10.0.0.0")!
        return address.hasPrefix(net, bits: 96 + 8) || address == PeerAddress("fd00::1")
    }

    /// - Parameter name: of the header that counts; nil: that of the first header.
    private func client(
        _ peer: String?, _ headers: [(String, String)], by name: String? = nil
    ) -> String? {
        ForwardedClient.address(
            in: headers.map { (name: $0.0, value: $0.1) }, from: peer,
            by: name ?? headers.first?.0 ?? Self.list, isProxy: isProxy)
    }

    @Test("NET-6 without a proxy the word of a header does not count")
    func stranger() {
        #expect(client("192.0.2.1", [(Self.forwarded, "for=198.51.100.7")]) == "192.0.2.1")
        #expect(client("192.0.2.1", [(Self.list, "198.51.100.7")]) == "192.0.2.1")
        #expect(client("192.0.2.1", []) == "192.0.2.1")
        #expect(client(nil, [(Self.forwarded, "for=198.51.100.7")]) == nil)
        #expect(client("nonsense", [(Self.list, "198.51.100.7")]) == "nonsense")
    }

    @Test(
        "NET-6 a proxy names the client in each form of the header",
        arguments: [
            ("for=198.51.100.7", "198.51.100.7"), ("For=198.51.100.7", "198.51.100.7"),
            ("for=198.51.100.7;proto=https;by=10.0.0.1", "198.51.100.7"),
            ("proto=https; for=198.51.100.7", "198.51.100.7"),
            (#"for="198.51.100.7:4711""#, "198.51.100.7"),
            (#"for="[2001:db8::7]""#, "2001:db8::7"),
            (#"for="[2001:db8::7]:4711""#, "2001:db8::7"),
            // A client in front of another proxy.
            ("for=198.51.100.7, for=10.2.0.2", "198.51.100.7"),
            // The client of an unknown peer may be invented.
            ("for=203.0.113.9, for=198.51.100.7", "198.51.100.7"),
            ("for=203.0.113.9, for=198.51.100.7, for=10.2.0.2", "198.51.100.7"),
            // A proxy that hides its client, and elements without a client.
            ("for=_hidden", "10.1.0.1"), ("for=unknown", "10.1.0.1"), ("proto=https", "10.1.0.1"),
            ("", "10.1.0.1"), (";;;,,,", "10.1.0.1"), ("for=", "10.1.0.1"),
            ("for=203.0.113.9, for=unknown, for=10.2.0.2", "10.2.0.2"),
            // Quotes and separators of a client in front of the proxy's word, or within it.
            (#"for="x, for=198.51.100.7"#, "198.51.100.7"),
            (#"for="x\", for=198.51.100.7"#, "198.51.100.7"),
            (#"host="a,for=203.0.113.9";for=198.51.100.7"#, "198.51.100.7"),
            (#"for=198.51.100.7;host="a;for=203.0.113.9""#, "198.51.100.7"),
            (#"for=198.51.100.7;host="a\",for=203.0.113.9""#, "198.51.100.7"),
            ("for=203.0.113.9\t,\tfor=198.51.100.7", "198.51.100.7"),
            ("for=203.0.113.9\u{600},for=198.51.100.7", "198.51.100.7"),
        ])
    func forms(header: String, expected: String) {
        #expect(client("10.1.0.1", [(Self.forwarded, header)]) == expected)
    }

    @Test(
        "NET-6 a list is split at each comma, whatever a client has put beside it",
        arguments: [
            "203.0.113.9,198.51.100.7", "203.0.113.9\t,198.51.100.7",
            "203.0.113.9 ,\t198.51.100.7 ",
            // Code points that are one character with the comma behind or before them.
            "203.0.113.9\u{600},198.51.100.7", "203.0.113.9\u{110BD},198.51.100.7",
            "203.0.113.9,\u{301}, 198.51.100.7", "203.0.113.9\u{200D},198.51.100.7",
            "\",198.51.100.7", "a\"b,198.51.100.7", ",,,198.51.100.7",
        ])
    func separators(header: String) {
        #expect(client("10.1.0.1", [(Self.list, header)]) == "198.51.100.7")
    }

    @Test("NET-6 a header that the proxy does not set counts nothing")
    func otherHeader() {
        let headers = [(Self.forwarded, "for=203.0.113.9"), (Self.list, "198.51.100.7")]
        for headers in [headers, headers.reversed()] {
            #expect(client("10.1.0.1", headers, by: Self.list) == "198.51.100.7")
            #expect(client("10.1.0.1", headers, by: Self.forwarded) == "203.0.113.9")
            #expect(client("10.1.0.1", headers, by: "x-real-ip") == "10.1.0.1")
        }
        #expect(client("10.1.0.1", [("x-real-ip", "198.51.100.7")]) == "198.51.100.7")
    }

    @Test("NET-6 an element that names nobody ends the list")
    func nobody() {
        for header in ["198.51.100.7,", "198.51.100.7, ", "198.51.100.7,unix:", "", " "] {
            #expect(client("10.1.0.1", [(Self.list, header)]) == "10.1.0.1")
        }
    }

    @Test("NET-6 several headers are one list")
    func lists() {
        #expect(
            client(
                "10.1.0.1",
                [(Self.forwarded, "for=198.51.100.7"), (Self.forwarded, "for=10.2.0.2")])
                == "198.51.100.7")
        #expect(client("10.1.0.1", [(Self.list, "203.0.113.9, 198.51.100.7")]) == "198.51.100.7")
        #expect(client("10.1.0.1", [(Self.list, "2001:db8::7, fd00::1")]) == "2001:db8::7")
        #expect(
            client("10.1.0.1", [(Self.list, "203.0.113.9"), (Self.list, "198.51.100.7")])
                == "198.51.100.7")
        #expect(client("fd00::1", [(Self.list, "198.51.100.7:80")]) == "198.51.100.7")
    }
}
