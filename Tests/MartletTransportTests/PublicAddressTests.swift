// SPDX-License-Identifier: Apache-2.0
//
// The table of private and public addresses: of each range the first and last address, and the neighbours outside.

import MartletBase
import MartletTransport
import Testing

@Suite("Public addresses")
struct PublicAddressTests {
    @Test(
        "GW-11 no address of a special range is public",
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0",
            "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254",
            "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255",
            "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.0.0",
            "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255",
            "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0",
            "255.255.255.255", "::", "::1", "::10.0.0.1", "::1.1.1.1", "64:ff9b:1::1", "100::1",
            "1fff:ffff::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:100::1",
            "2001:1ff:ffff::1", "2001:db8::1", "2001:db8:ffff::1", "3fff::1", "3fff:fff:ffff::1",
            "4000::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1",
        ])
    func special(text: String) throws { #expect(try !#require(PeerAddress(text)).isPublic) }

    @Test(
        "GW-11 the neighbours of special ranges are public",
        arguments: [
            "1.0.0.0", "1.1.1.1", "9.255.255.255", "11.0.0.0", "17.188.143.34", "93.184.216.34",
            "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
            "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0",
            "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
            "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
            "203.0.114.0", "223.255.255.255", "2000::1", "2001:200::1", "2001:db7::1",
            "2001:db9::1", "2003::1", "2606:4700::1111", "2620:149:208:4304::1", "2a00:1450::1",
            "3ffe::1", "3fff:1000::1",
        ])
    func other(text: String) throws { #expect(try #require(PeerAddress(text)).isPublic) }

    @Test(
        "GW-11 an address that leads to an IPv4 address is as public as that",
        arguments: [("10.0.0.1", false), ("127.0.0.1", false), ("17.188.143.34", true)])
    func behind(text: String, isPublic: Bool) throws {
        let v4 = try #require(PeerAddress(text)).low & 0xFFFF_FFFF
        let mapped = try #require(PeerAddress("::ffff:\(text)"))
        let nat64 = try #require(PeerAddress("64:ff9b::\(text)"))
        let sixToFour = PeerAddress(high: 0x2002 << 48 | v4 << 16 | 1, low: 1)
        for address in [mapped, nat64, sixToFour] { #expect(address.isPublic == isPublic) }
    }

    @Test(
        "GW-11 a name is no address", arguments: ["", "localhost", "1.2.3", "1.2.3.4.5", "0x7f.1"])
    func names(text: String) { #expect(PeerAddress(text) == nil) }
}
