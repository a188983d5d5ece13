// SPDX-License-Identifier: Apache-2.0
//
// Reads the URL of a subscription, strictly: strangers write these, and every program on the way must see the same host
// in the same text. So there are no user names, no fragments, no blanks and nothing but ASCII. Pure.
// Source: RFC 8030, section 5; RFC 3986.

import Martlet

/// An endpoint of a push service.
package struct PushEndpoint: Sendable, Hashable {
    /// Longest endpoint, in bytes. Those of push services have some 200 to 600.
    package static let bytesMax = 2048

    /// Whether the scheme is `http`.
    package let isPlain: Bool
    /// Scheme, host, and the port unless it is the scheme's default.
    package let origin: String
    /// A name in lower case or a numeric address. IPv6 addresses come without brackets.
    package let host: String
    package let port: UInt16
    /// The endpoint, as a request has it.
    package let url: String

    /// Reads an `https` endpoint.
    /// - Parameter isPlainAllowed: whether `http` will do: for this broker's own endpoints, because nothing goes over the
    ///   network to them.
    /// - Throws: `INVALID_ARGUMENT` with the reason.
    package init(_ text: String, isPlainAllowed: Bool = false) throws(MartletError) {
        guard text.utf8.count <= Self.bytesMax else {
            throw Self.wrong("has more than \(Self.bytesMax) bytes")
        }
        let isPlain = isPlainAllowed && text.lowercased().hasPrefix("http://")
        let scheme = isPlain ? "http://" : "https://"
        guard text.lowercased().hasPrefix(scheme) else {
            throw Self.wrong("does not begin with https://")
        }
        let rest = text.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let path = rest.dropFirst(authority.count)
        guard path.utf8.allSatisfy(Self.isPathByte) else {
            throw Self.wrong("has a character that no URL may have, or a fragment")
        }
        let usual: UInt16 = isPlain ? 80 : 443
        let (host, port) = try Self.hostAndPort(authority, usual)
        self.isPlain = isPlain
        self.host = host
        self.port = port
        let shown = host.contains(":") ? "[\(host)]" : host
        origin = scheme + shown + (port == usual ? "" : ":\(port)")
        url = origin + (path.hasPrefix("/") ? "" : "/") + path
    }

    private static func hostAndPort(
        _ authority: Substring, _ usual: UInt16
    ) throws(MartletError) -> (host: String, port: UInt16) {
        var host = authority
        var port = usual
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            let digits = authority[authority.index(after: colon)...]
            guard let number = UInt16(digits), number > 0, digits.utf8.allSatisfy(isDigit) else {
                throw wrong("has a port that is not a number")
            }
            port = number
            host = authority[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") {
            let address = host.dropFirst().dropLast().lowercased()
            guard !address.isEmpty, address.utf8.allSatisfy({ isHexadecimal($0) || $0 == 0x3A })
            else {
                throw wrong("has brackets without an IPv6 address")
            }
            return (address, port)
        }
        let name = host.lowercased()
        guard !name.isEmpty, name.utf8.count <= 253, name.utf8.allSatisfy(isNameByte) else {
            throw wrong("has a host with other characters than letters, digits, dots and dashes")
        }
        return (name, port)
    }

    private static func wrong(_ fault: String) -> MartletError {
        MartletError(.invalidArgument, "The endpoint \(fault).", field: "endpoint")
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        isDigit(byte) || (0x61...0x66).contains(byte)
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D || byte == 0x2E
    }

    /// Printable ASCII that may appear in a path or a query. `#` is not among it.
    private static func isPathByte(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && !"\"#<>\\^`{|}".utf8.contains(byte)
    }
}
