// SPDX-License-Identifier: Apache-2.0
//
// The client behind a proxy: `Forwarded` (RFC 7239) or `X-Forwarded-For`. Each proxy appends the address of its peer, so
// the list is read from its end, as far as the proxies are known. An address in front of an unknown peer may be
// invented. Rests on PeerAddress.

package import MartletTransport

package enum ForwardedClient {
    /// The address of the client of a request with these headers.
    /// - Parameters:
    ///   - peer: address of the connection's other end.
    ///   - isProxy: whether the word of an address counts.
    package static func address(
        in headers: [(name: String, value: String)], from peer: String?,
        isProxy: (PeerAddress) -> Bool
    ) -> String? {
        guard let peer, var client = PeerAddress(peer), isProxy(client) else { return peer }
        for text in named(in: headers).reversed() {
            guard let next = PeerAddress(text) else { break }
            client = next
            guard isProxy(next) else { break }
        }
        return client.description
    }

    /// The named addresses in the order of the proxies.
    private static func named(in headers: [(name: String, value: String)]) -> [String] {
        func values(_ name: String) -> [Substring] {
            headers.filter { $0.name == name }.flatMap { $0.value.split(separator: ",") }
        }
        let forwarded = values("forwarded")
        guard forwarded.isEmpty else {
            return forwarded.map { element in
                for pair in element.split(separator: ";") {
                    let sides = pair.split(separator: "=", maxSplits: 1)
                    if sides.count == 2, trimmed(sides[0]).lowercased() == "for" {
                        return host(trimmed(sides[1]))
                    }
                }
                return ""
            }
        }
        return values("x-forwarded-for").map { host(trimmed($0)) }
    }

    /// The address of `192.0.2.7:4711`, `"[2001:db8::1]:4711"` or an address alone.
    private static func host(_ text: String) -> String {
        let bare = text.filter { $0 != "\"" }
        if bare.first == "[" { return String(bare.dropFirst().prefix { $0 != "]" }) }
        let parts = bare.split(separator: ":", omittingEmptySubsequences: false)
        return parts.count == 2 ? String(parts[0]) : bare
    }

    private static func trimmed(_ text: Substring) -> String {
        String(text.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
