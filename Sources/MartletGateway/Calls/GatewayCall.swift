// SPDX-License-Identifier: Apache-2.0
//
// A request in the form that routes read, independent of HTTP version and server. Rests on the standard library.

/// A request of a caller.
public struct GatewayCall: Sendable {
    /// HTTP methods that a route can have.
    public enum Method: String, Sendable, Hashable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
        case options = "OPTIONS"
    }

    /// HTTP method of the request.
    public var method: Method
    /// Decoded parts of the path between slashes: `["v1", "projects", "tides", "messages:send"]`.
    public var path: [String]
    /// Decoded query parameters, in the order of the request.
    public var query: [(name: String, value: String)]
    /// Headers in the order of the request, with names in lower case.
    public var headers: [(name: String, value: String)]
    /// Bytes of the body; empty for a request without a body.
    public var body: [UInt8]
    /// The caller's network address, for the log.
    public var peer: String?
    /// GW-8: delivery of the answer to the caller. nil: the caller has the answer as soon as `Gateway.answer`
    /// returns.
    package var delivery: AnswerDelivery?
    /// The path's values for each `{name}` in the route's pattern. `Gateway` sets the values.
    public package(set) var parameters: [String: String] = [:]
    /// The authenticated caller; nil on a route without authentication. `Gateway` sets the caller.
    public package(set) var caller: Caller?

    /// Makes a call from a path that is already decoded.
    /// - Parameters:
    ///   - path: decoded parts of the path between slashes.
    ///   - query: decoded query parameters.
    ///   - headers: headers with names in lower case.
    public init(
        _ method: Method, path: [String], query: [(name: String, value: String)] = [],
        headers: [(name: String, value: String)] = [], body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
    }

    /// Decodes the target of a request; nil for a broken escape, an escaped letter or digit in the path, or a target
    /// without a leading slash. A rule of a proxy for a path finds the path as it is written, and no client escapes letters:
    /// `/%6detrics` is not `/metrics`.
    /// - Parameter target: path and query as written on the request line.
    public init?(
        _ method: Method, target: String, headers: [(name: String, value: String)] = [],
        body: [UInt8] = []
    ) {
        let halves = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = halves.first, path.first == "/" else { return nil }
        var parts: [String] = []
        for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let text = PercentEncoding.decode(part, refusesNeedless: true) else {
                return nil
            }
            parts.append(text)
        }
        guard let query = PercentEncoding.form(halves.count > 1 ? halves[1] : "") else {
            return nil
        }
        self.init(method, path: parts, query: query, headers: headers, body: body)
    }

    /// The value of the first header with this name. All fields of `cookie` are parts of one value, because a browser
    /// sends each cookie in a field of its own over HTTP/2. Source: RFC 9113 §8.2.3.
    /// - Parameter name: in lower case.
    public func header(_ name: String) -> String? {
        guard name == "cookie" else { return headers.first { $0.name == name }?.value }
        let parts = headers.filter { $0.name == name }.map(\.value)
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    /// The value of a header that is a list: all its lines in their order, as one list. nil without a line. Source: RFC 9110,
    /// section 5.3.
    /// - Parameter name: in lower case.
    public func list(_ name: String) -> String? {
        let lines = headers.filter { $0.name == name }.map(\.value)
        return lines.isEmpty ? nil : lines.joined(separator: ", ")
    }

    /// Whether the body is of a type, whatever its parameters.
    /// - Parameter type: in lower case.
    func hasContentType(_ type: String) -> Bool {
        let told = header("content-type")?.prefix { $0 != ";" && $0 != " " }
        return told?.lowercased() == type
    }

    /// The credential of a call: `Authorization`, or the parameter `access_token` in its place (RFC 6750 §2.3).
    var authorization: String? {
        header("authorization") ?? parameter("access_token").map { "Bearer " + $0 }
    }

    /// The value of the first query parameter with this name.
    public func parameter(_ name: String) -> String? {
        query.first { $0.name == name }?.value
    }

    /// The value for `{name}` in the route's pattern; empty for an unknown name.
    public subscript(name: String) -> String { parameters[name] ?? "" }
}

/// The caller proved by a credential.
public struct Caller: Sendable, Hashable {
    /// Kinds of credentials that senders present (REG-5).
    public enum Credential: Sendable, Hashable {
        /// An access token minted from a service-account key.
        case accessToken
        /// A server key, `ID.SECRET`.
        case serverKey
        /// GW-12: a Web Push endpoint, whose URL is the credential.
        case endpoint
    }

    /// ID of the caller's project.
    public var projectID: String
    /// Numeric sender ID of the caller's project (REG-5), 12 digits.
    public var senderID: UInt64
    /// Kind of the presented credential.
    public var credential: Credential
    /// ID of the service-account key or server key.
    public var keyID: String

    package init(projectID: String, senderID: UInt64, credential: Credential, keyID: String) {
        self.projectID = projectID
        self.senderID = senderID
        self.credential = credential
        self.keyID = keyID
    }

    /// Whether `project` names the caller's project, by ID or by numeric sender ID.
    func isOf(_ project: String) -> Bool {
        project == projectID || project == String(senderID)
    }
}
