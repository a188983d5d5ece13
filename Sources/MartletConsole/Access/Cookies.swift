// SPDX-License-Identifier: Apache-2.0
//
// The cookies of the console: the secret of a session, and the mark of a browser in which a user has signed in before. The
// names have a part that differs from broker to broker, because browsers keep a single set of cookies for all ports of a
// host. A name with __Host- binds a cookie to its host and to TLS. Source: RFC 6265bis §4.1.3. Rests on
// AuthenticationKey.

import Martlet
import MartletCrypto

/// Makes and reads the cookies of a console.
struct Cookies: Sendable {
    private let key: AuthenticationKey
    private let isSecure: Bool
    /// Name of the session's cookie.
    let session: String
    private let mark: String

    /// Cookies of a name that are looked at: cookies of other paths and of attackers may come before the right cookie.
    private static let valuesMax = 8
    /// Half a year.
    private static let markSeconds: Int64 = 180 * 86_400

    /// - Parameter secret: a secret of the broker, which outlives restarts.
    init(_ secret: [UInt8], isSecure: Bool) {
        key = AuthenticationKey(secret)
        self.isSecure = isSecure
        let part = Base64URL.encode(Array(key.code(of: Array("name".utf8)).prefix(6)))
        session = (isSecure ? "__Host-martlet-" : "martlet-console-") + part
        mark = session + "-known"
    }

    /// The secrets of sessions in the value of the header `cookie`.
    func sessions(in cookie: String) -> [String] { Self.values(of: session, in: cookie) }

    /// Whether the browser has signed in as the user before.
    func isKnown(_ user: String, in cookie: String) -> Bool {
        Self.values(of: mark, in: cookie).contains { value in
            Base64URL.decode(value).map { key.isCode($0, of: Self.marked(user)) } ?? false
        }
    }

    private static func values(of name: String, in cookie: String) -> [String] {
        let start = name + "="
        return cookie.split(separator: ";").lazy.map { $0.drop { $0 == " " } }
            .filter { $0.hasPrefix(start) }.prefix(valuesMax)
            .map { String($0.dropFirst(start.count)) }
    }

    private static func marked(_ user: String) -> [UInt8] { Array("known \(user)".utf8) }

    // MARK: Set-Cookie

    /// The cookie of a session that begins.
    func begin(_ secret: String) -> String {
        cookie(session, secret, seconds: Limits.consoleSessionSeconds)
    }

    /// The cookie of a session that ends.
    var end: String { cookie(session, "", seconds: 0) }

    /// The mark of a browser that has signed in.
    func know(_ user: String) -> String {
        cookie(mark, Base64URL.encode(key.code(of: Self.marked(user))), seconds: Self.markSeconds)
    }

    private func cookie(_ name: String, _ value: String, seconds: Int64) -> String {
        "\(name)=\(value); Path=/; Max-Age=\(seconds); HttpOnly; SameSite=Strict"
            + (isSecure ? "; Secure" : "")
    }
}
