// SPDX-License-Identifier: Apache-2.0
//
// One request as routes see it, whichever HTTP version or server brought it. Rests on nothing.

/// A request of a caller.
public struct GatewayCall: Sendable {
    public enum Method: String, Sendable, Hashable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    public var method: Method
    /// The path's parts between slashes, decoded: `["v1", "projects", "tides", "messages:send"]`.
    public var path: [String]
    /// Decoded, in their order.
    public var query: [(name: String, value: String)]
    /// Names in lower case, in their order.
    public var headers: [(name: String, value: String)]
    public var body: [UInt8]
    /// The address of whoever calls, for the log.
    public var peer: String?
    /// GW-8: the way of the answer to the caller. nil: the caller has the answer when `Gateway.answer`
    /// returns it.
    package var delivery: AnswerDelivery?
    /// What stands for `{name}` in the route's pattern. Filled in by the route table.
    public internal(set) var parameters: [String: String] = [:]
    /// Who calls. Filled in by the route table where the route asks for it.
    public package(set) var caller: Caller?

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

    /// - Parameter target: path and query as they are on the request line; nil if an escape in it is
    ///   broken.
    public init?(
        _ method: Method, target: String, headers: [(name: String, value: String)] = [],
        body: [UInt8] = []
    ) {
        let halves = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = halves.first, path.first == "/" else { return nil }
        var parts: [String] = []
        for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let text = PercentEncoding.decode(part) else { return nil }
            parts.append(text)
        }
        guard let query = PercentEncoding.form(halves.count > 1 ? halves[1] : "") else {
            return nil
        }
        self.init(method, path: parts, query: query, headers: headers, body: body)
    }

    /// The first header of this name, in lower case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }

    /// The first query parameter of this name.
    public func parameter(_ name: String) -> String? {
        query.first { $0.name == name }?.value
    }

    /// What stands for `{name}` in the route's pattern; empty for a name that is not in it.
    public subscript(name: String) -> String { parameters[name] ?? "" }
}

/// Who calls, as their credential says.
public struct Caller: Sendable, Hashable {
    public enum Credential: Sendable, Hashable {
        case accessToken
        case serverKey
    }

    public var projectID: String
    public var senderID: UInt64
    public var credential: Credential
    /// Of the service-account key or server key.
    public var keyID: String

    package init(projectID: String, senderID: UInt64, credential: Credential, keyID: String) {
        self.projectID = projectID
        self.senderID = senderID
        self.credential = credential
        self.keyID = keyID
    }

    /// The project is named by its ID or by its numeric sender ID.
    public func isOf(_ project: String) -> Bool {
        project == projectID || project == String(senderID)
    }
}
