// SPDX-License-Identifier: Apache-2.0
//
// A route of the console's own API: who may call it, what it takes, and what it answers. The OpenAPI document is made of
// the same values. Rests on Route.

import Martlet
package import MartletAnswers
package import MartletGateway

/// A route below `/console/api/v1/`.
package struct ConsoleRoute: Sendable {
    typealias Handler = @Sendable (ConsoleCall) async throws -> ConsoleReply

    /// Who may call a route.
    package enum Access: Sendable, Hashable {
        /// Everybody: to sign in.
        case anyone
        /// Persons with this role, in the project of the path if the path has one.
        case role(ConsoleRole)
        /// Persons with this role and rights in all projects.
        case everywhere(ConsoleRole)
    }

    /// A parameter of the query, or a member of the body.
    package struct Field: Sendable, Hashable {
        package enum Kind: String, Sendable { case string, integer, boolean, object, strings }

        package var name: String
        var kind: Kind
        var isRequired: Bool
        var about: String
        /// The shape; nil: the kind tells all.
        private var shape: Schema?

        init(
            _ name: String, _ kind: Kind, isRequired: Bool = false, _ about: String,
            shape: Schema? = nil
        ) {
            self.name = name
            self.kind = kind
            self.isRequired = isRequired
            self.about = about
            self.shape = shape
        }

        var schema: Schema {
            if let shape { return shape }
            return switch kind {
            case .string: .string
            case .integer: .integer
            case .boolean: .boolean
            case .object: .anything
            case .strings: .list(.string)
            }
        }
    }

    /// The name in the metrics and in OpenAPI: `topics.list`.
    package var name: String
    package var method: GatewayCall.Method
    /// Path below `/console/api/v1/`, with parts `{name}` and `{name}:verb`.
    package var path: String
    package var access: Access
    /// What the route does, as a sentence.
    var summary: String
    package var query: [Field]
    var body: [Field]
    /// What the answer is, as a sentence.
    var answer: String
    /// The shape of the answer.
    var schema: Schema
    var handler: Handler

    init(
        _ name: String, _ method: GatewayCall.Method, _ path: String, _ access: Access,
        _ summary: String, query: [Field] = [], body: [Field] = [], answer: String,
        schema: Schema, handler: @escaping Handler
    ) {
        self.name = name
        self.method = method
        self.path = path
        self.access = access
        self.summary = summary
        self.query = query
        self.body = body
        self.answer = answer
        self.schema = schema
        self.handler = handler
    }

    static let prefix = "console/api/v1/"

    /// All routes of the API. A new area needs a list of routes in a new file, and a line here.
    package static let all: [ConsoleRoute] =
        session + live + projects + messages + audiences + topics + devices + groups + keys + people
        + documents

    /// Parameters of pages.
    static let paged = [
        Field("after", .string, "The `next` of the page before."),
        Field("limit", .integer, "Entries of the page, 1 to 1000."),
    ]

    /// Parameters of pages of the log of actions.
    static let logPage = [
        Field("before", .integer, "The `next` of the page before."),
        Field("limit", .integer, "Entries of the page, 1 to 1000."),
    ]

    /// The names of the path's parameters.
    package var parameters: [String] {
        path.split(separator: "/").compactMap { part in
            guard part.first == "{", let end = part.firstIndex(of: "}") else { return nil }
            return String(part[part.index(after: part.startIndex)..<end])
        }
    }

    // MARK: Calls

    /// The route for the gateway.
    func route(of console: Console) -> Route {
        Route(
            "console/" + name, method, Self.prefix + path,
            access: .judged { call in
                guard access != .anyone else { return .stranger }
                return .other(name: "console " + (try person(of: call, console).session))
            },
            refusal: { Self.refusal($0) }
        ) { (call, gateway) in
            try await answer(call, console, tokenURL: gateway.tokenURL)
        }
    }

    /// Whether a call is a person's act and prolongs the session. A page tells the calls without an act of the person,
    /// and a browser opens a broken stream again without the person.
    private func isUse(_ call: GatewayCall) -> Bool {
        name != "events" && call.header(Self.background) == nil
    }

    /// The header of a call without an act of the person.
    static let background = "x-martlet-background"

    /// The person behind a call, with the rights that the route takes.
    private func person(of call: GatewayCall, _ console: Console) throws -> Person {
        guard let cookie = call.header("cookie") else {
            throw MartletError(.unauthenticated, "There is no open session; sign in.")
        }
        var person = try console.people.session(in: cookie, isUse: isUse(call))
        person.address = call.peer ?? "an unknown address"
        switch access {
        case .anyone: break
        case .role(let role):
            let project = parameters.contains("project") ? call["project"] : person.project
            try person.require(role, in: project)
        case .everywhere(let role): try person.require(role, in: nil)
        }
        if method != .get {
            try Origin.require(call)
            guard call.header("x-martlet-csrf") == person.csrf else {
                throw MartletError(
                    .permissionDenied, "The header x-martlet-csrf has not the value of the session."
                )
            }
        }
        return person
    }

    private func answer(
        _ call: GatewayCall, _ console: Console, tokenURL: String
    ) async throws -> GatewayAnswer {
        try Origin.requireHost(call, of: console)
        var person: Person?
        if access != .anyone { person = try self.person(of: call, console) }
        var fields = JSONFields()
        if method != .get, !call.body.isEmpty {
            do {
                fields = try JSONFields(try JSONValue(document: call.body), "")
            } catch let fault as JSONValue.Fault {
                throw MartletError(
                    .invalidArgument, "This is no JSON (\(fault.message)).",
                    byteOffset: UInt32(clamping: fault.byteOffset))
            }
        }
        for name in call.query.map(\.name) where !query.contains(where: { $0.name == name }) {
            throw MartletError(.invalidArgument, "There is no such parameter here.", field: name)
        }
        let reply = try await handler(
            ConsoleCall(
                call: call, console: console, signedIn: person, fields: fields,
                names: body.map(\.name), tokenURL: tokenURL))
        return reply.answer
    }

    static func refusal(_ error: GatewayError) -> GatewayAnswer {
        var body = FailureAnswer.Body(code: error.status.rawValue, message: error.message)
        if let cause = error.cause { body = .init(cause) }
        var answer = ConsoleReply.json(FailureAnswer(error: body)).answer
        answer.status = error.httpStatus
        if let seconds = error.retryAfterSeconds {
            answer.headers.append(("retry-after", String(seconds)))
        }
        return answer
    }
}
