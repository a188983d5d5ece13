// SPDX-License-Identifier: Apache-2.0
//
// HOST:PORT, as options and settings have it. Rests on nothing.

/// A host and a TCP port.
package struct HostPort: Hashable, Sendable, CustomStringConvertible {
    /// A name, or an IPv4 or IPv6 address without brackets.
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, with an IPv6 address in brackets; nil for any other text.
    package init?(_ text: some StringProtocol) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        // UInt16 takes a sign too.
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = UInt16(digits)
        else { return nil }
        var host = text[..<colon]
        if host.first == "[", host.last == "]" {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
