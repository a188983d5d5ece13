// SPDX-License-Identifier: Apache-2.0
//
// A route: a method, a path pattern and a handler. Each area of the gateway has a list of routes; the first route
// that fits a call answers. Rests on GatewayCall.

/// A route of the gateway.
package struct Route: Sendable {
    package typealias Handler = @Sendable (GatewayCall, Gateway) async throws -> GatewayAnswer

    /// Callers with access to a route.
    package enum Access: Sendable {
        /// Operators; the route takes no part in the requests in progress.
        case anyone
        /// Strangers who bring an assertion. Their requests have a part of their own.
        case exchange
        /// `Authorization: Bearer` with an access token or a server key. A `{project}` in the pattern must be the
        /// caller's project.
        case bearer
        /// `bearer`, and also `Authorization: key=SERVER_KEY`.
        case bearerOrKey
        /// The route's door judges a head by itself: by a credential in the path, or by a session.
        case judged(@Sendable (GatewayCall) throws -> Judgement)

        /// Whether a server key is taken as `key=SERVER_KEY`.
        var takesKey: Bool { if case .bearerOrKey = self { true } else { false } }
        var isExchange: Bool { if case .exchange = self { true } else { false } }
        var isOfAnyone: Bool { if case .anyone = self { true } else { false } }
    }

    /// The result of judging a head.
    package enum Judgement: Sendable {
        /// A caller with a right credential of a sender.
        case sender(Caller)
        /// A caller with a right credential of another kind. Bodies count under the name.
        case other(name: String)
        case stranger
    }

    /// Name of the route in the metrics.
    var name: String
    var method: GatewayCall.Method
    /// Pattern of the path: `v1/projects/{project}/messages:send`. Each part is a text, `{name}` or `{name}:verb`.
    var pattern: String
    var access: Access
    /// Writes a refusal in the form of the route's area.
    var refusal: @Sendable (GatewayError) -> GatewayAnswer
    var handler: Handler
    /// Whether the route sends, and asks only about what a refused send has met. Other routes wait for the newest rows
    /// of the log before they ask (OPS-7).
    var isSending: Bool
    /// Whether the body is handed on as it comes, in whatever `Content-Encoding`. Other bodies are unpacked.
    var keepsCoding: Bool
    /// Longest body, in bytes, if the route's bound is below the gateway's.
    var bodyBytesMax: Int

    private let parts: [Part]

    private enum Part: Sendable {
        case text(String)
        case parameter(String, verb: String)
    }

    package init(
        _ name: String, _ method: GatewayCall.Method, _ pattern: String,
        access: Access = .bearer, isSending: Bool = false, keepsCoding: Bool = false,
        bodyBytesMax: Int = .max,
        refusal: @escaping @Sendable (GatewayError) -> GatewayAnswer = { $0.envelope },
        handler: @escaping Handler
    ) {
        self.name = name
        self.method = method
        self.pattern = pattern
        self.access = access
        self.isSending = isSending
        self.keepsCoding = keepsCoding
        self.refusal = refusal
        self.handler = handler
        self.bodyBytesMax = bodyBytesMax
        parts = pattern.split(separator: "/", omittingEmptySubsequences: false).map { part in
            guard part.first == "{", let end = part.firstIndex(of: "}") else {
                return .text(String(part))
            }
            return .parameter(
                String(part[part.index(after: part.startIndex)..<end]),
                verb: String(part[part.index(after: end)...]))
        }
    }

    /// The path's values for the pattern's names; nil if the path does not fit.
    package func match(_ path: [String]) -> [String: String]? {
        // Some clients join a base that ends with a slash and a path that begins with one: `//v1/…`. What operators ask has
        // one spelling, which a proxy's rule can name.
        let path = access.isOfAnyone ? path[...] : path.drop { $0.isEmpty }
        guard path.count == parts.count else { return nil }
        var parameters: [String: String] = [:]
        for (part, text) in zip(parts, path) {
            switch part {
            case .text(let expected): guard text == expected else { return nil }
            case .parameter(let name, let verb):
                guard text.hasSuffix(verb), text.count > verb.count else { return nil }
                parameters[name] = String(text.dropLast(verb.count))
            }
        }
        return parameters
    }
}

extension Route {
    /// All routes of the gateway. A new area needs a list of routes in a new file, and a line here.
    static let all: [Route] =
        messages + subscriptions + instanceTopics + groups + legacy + deliveryData + tokens
        + operations
}
