// SPDX-License-Identifier: Apache-2.0
//
// HOST:PORT, the one form of every option that names a place (NET-7).

import Martlet
import Testing

@Suite("HOST:PORT")
struct HostPortTests {
    @Test(
        "NET-7 a name, an IPv4 address or an IPv6 address in brackets, and a port",
        arguments: [
            ("localhost:9464", "localhost", 9464), ("127.0.0.1:0", "127.0.0.1", 0),
            ("[::1]:443", "::1", 443), ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65_535),
        ])
    func read(text: String, host: String, port: UInt16) {
        let place = HostPort(text)
        #expect(place == HostPort(host: host, port: port))
        #expect(place?.description == text)
    }

    @Test(
        "NET-7 any other text is refused",
        arguments: [
            "", ":", "9464", "localhost", "localhost:", ":9464", "[]:9464", "::1", "::1:9464",
            "localhost:65536", "localhost:+1", "localhost:-1", "localhost: 1", "localhost:1,tls",
        ])
    func refused(text: String) { #expect(HostPort(text) == nil) }
}
