// SPDX-License-Identifier: Apache-2.0
//
// The header in which a proxy names its client, byte by byte and cut at each place. The lines of version 1 are those
// of the specification (§2.1) and their neighbours.

import Martlet
import MartletBase
import Testing

@Suite("Headers of proxies")
struct ProxyHeaderTests {
    private static let longest = "PROXY UNKNOWN " + String(repeating: "f", count: 91) + "\r\n"

    @Test(
        "NET-6 version 1: the client's address, or a client without an address",
        arguments: [
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255"),
            ("PROXY TCP4 192.0.2.7 127.0.0.1 0 5230\r\n", "192.0.2.7"),
            ("PROXY TCP6 2001:db8::7 ::1 40000 5230\r\n", "2001:db8::7"),
            ("PROXY TCP6 2001:DB8::AB ::1 40000 5230\r\n", "2001:db8::ab"),
            ("PROXY TCP6 ::ffff:192.0.2.7 ::1 40000 5230\r\n", "192.0.2.7"),
            ("PROXY UNKNOWN\r\n", nil), ("PROXY UNKNOWN any \r thing\r\n", nil), (longest, nil),
            (
                "PROXY UNKNOWN ffff:f:f:f:f:f:f:ffff ffff:f:f:f:f:f:f:ffff 65535 65535\r\n",
                nil as String?
            ),
        ])
    func lines(_ line: String, client: String?) throws {
        let bytes = Array(line.utf8)
        let named: ProxyHeader.Client =
            if let client { .address(try #require(PeerAddress(client))) } else { .unknown }
        for count in 0..<bytes.count {
            #expect(ProxyHeader(Array(bytes[..<count])) == .unfinished)
        }
        #expect(ProxyHeader(bytes) == .whole(named, byteCount: bytes.count))
        #expect(ProxyHeader(bytes + [0, 3, 0x0D, 0x0A]) == .whole(named, byteCount: bytes.count))
    }

    @Test(
        "NET-6 version 1: a line that is not exactly as specified is refused",
        arguments: [
            "PROXZ", "PROXY\tTCP4 1.2.3.4 5.6.7.8 1 2\r\n", "proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", "PROXY TCP4\r\n", "PROXY \r\n",
            "PROXY UNKNOWNS\r\n", "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n", "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY TCP6 ::1 5.6.7.8 1 2\r\n", "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
            "PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n", "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
            "PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n", "PROXY TCP4 1.2.3.4\0 5.6.7.8 1 2\r\n",
            "PROXY TCP4 host 5.6.7.8 1 2\r\n", "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 +2\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 999999999999999999999\r\n",
            "PROXY UNKNOWN " + String(repeating: "f", count: 93),
            "PROXY UNKNOWN " + String(repeating: "f", count: 92) + "\r\n",
        ])
    func wrongLines(_ line: String) {
        #expect(ProxyHeader(Array(line.utf8)) == .wrong)
    }

    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let v4: [UInt8] = [192, 0, 2, 7, 127, 0, 0, 1, 0x10, 0, 0x14, 0x6C]
    private static let v6: [UInt8] =
        [0x20, 1, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [7]
        + [UInt8](repeating: 0, count: 20)

    @Test(
        "NET-6 version 2: the client's address, a client without an address, or the proxy itself",
        arguments: [
            ([0x21, 0x11, 0, 12] + v4, ProxyHeader.Client.address(PeerAddress("192.0.2.7")!)),
            ([0x21, 0x11, 0, 15] + v4 + [4, 0, 0], .address(PeerAddress("192.0.2.7")!)),
            ([0x21, 0x21, 0, 36] + v6, .address(PeerAddress("2001:db8::7")!)),
            ([0x21, 0, 0, 0], .unknown), ([0x21, 0x11, 0, 3, 1, 2, 3], .unknown),
            ([0x20, 0, 0, 0], .proxy), ([0x20, 0x11, 0, 12] + v4, .proxy),
        ])
    func binary(_ rest: [UInt8], client: ProxyHeader.Client) {
        let bytes = Self.signature + rest
        for count in 0..<bytes.count {
            #expect(ProxyHeader(Array(bytes[..<count])) == .unfinished)
        }
        #expect(ProxyHeader(bytes + [1]) == .whole(client, byteCount: bytes.count))
    }

    @Test(
        "NET-6 version 2: another version or command, and a header that is too long, are refused",
        arguments: [
            [0x11, 0x11, 0, 12], [0x31, 0x11, 0, 12], [0x22, 0x11, 0, 12], [0x21, 0x11, 4, 0],
        ])
    func wrongBinary(_ head: [UInt8]) {
        #expect(ProxyHeader(Self.signature + head) == .wrong)
        #expect(ProxyHeader([0x0D, 0x0A, 0x0D, 0x0B]) == .wrong)
        #expect(ProxyHeader(Array("GET / HTTP/1.1\r\n".utf8)) == .wrong)
    }
}
