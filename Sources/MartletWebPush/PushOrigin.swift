// SPDX-License-Identifier: Apache-2.0
//
// The push service's public origin: scheme, host and port by which senders reach it. It is configured, never taken from
// a request, because a sender that meets a wrong origin deletes its subscriptions. Rests on MartletBase.
// Source: RFC 6454; RFC 8292, section 2 (`aud`).

public import Martlet

/// An origin such as `https://push.example.org`.
public struct PushOrigin: Sendable, Hashable, CustomStringConvertible {
    /// `https` or `http`.
    public let scheme: String
    /// Host in lower case; IPv6 addresses are in brackets.
    public let host: String
    /// Port; the scheme's default if the text names none.
    public let port: UInt16

    /// Reads an origin, with or without a slash at the end.
    /// - Throws: `INVALID_ARGUMENT` if the text has a path, a user or another scheme.
    public init(_ text: String) throws(MartletError) {
        guard let (scheme, host, port) = Self.parts(text[...]) else {
            throw MartletError(
                .invalidArgument,
                "'\(text)' is no origin; write https://HOST or https://HOST:PORT.",
                field: "web-push-origin")
        }
        self.scheme = scheme
        self.host = host
        self.port = port ?? Self.defaultPort(scheme)
    }

    /// The origin, without its scheme's default port and without a slash at the end.
    public var description: String {
        "\(scheme)://\(host)" + (port == Self.defaultPort(scheme) ? "" : ":\(port)")
    }

    /// Whether a token's audience is this origin. Some senders leave the port out, so without one any port matches.
    func isAudience(_ text: String) -> Bool {
        guard let (scheme, host, port) = Self.parts(text[...]) else { return false }
        return scheme == self.scheme && host == self.host && (port ?? self.port) == self.port
    }

    private static func defaultPort(_ scheme: String) -> UInt16 { scheme == "https" ? 443 : 80 }

    private static func parts(
        _ text: Substring
    ) -> (scheme: String, host: String, port: UInt16?)? {
        let text = text.hasSuffix("/") ? text.dropLast() : text
        guard let separator = text.firstRange(of: "://") else { return nil }
        let scheme = text[..<separator.lowerBound].lowercased()
        var rest = text[separator.upperBound...]
        guard scheme == "https" || scheme == "http" else { return nil }
        var port: UInt16?
        if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
            guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else {
                return nil
            }
            port = number
            rest = rest[..<colon]
        }
        let host = rest.lowercased()
        let isWhole =
            host.hasPrefix("[")
            ? host.hasSuffix("]") && host.count > 2
            : !host.isEmpty && !host.contains(":")
        guard isWhole, !host.contains(where: { "/?#@ ".contains($0) }) else { return nil }
        return (scheme, host, port)
    }
}
