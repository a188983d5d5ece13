// SPDX-License-Identifier: Apache-2.0
//
// A call of the console's API as its handlers read it: the person, the path, the query and the body. Rests on GatewayCall
// and JSONFields.

import Martlet
import MartletAnswers
import MartletGateway

/// A call of a person.
struct ConsoleCall: Sendable {
    let call: GatewayCall
    let console: Console
    /// nil on a route for everybody.
    let signedIn: Person?
    /// The members of the body; none without a body.
    var fields: JSONFields
    /// The names that the body may have.
    let names: [String]
    /// The address of the gateway's `/token`, as SDKs reach it.
    let tokenURL: String

    var broker: Broker { console.broker }
    var project: String { call["project"] }
    var sender: BrokerSender { broker.sender(in: project) }

    /// - Throws: `UNAUTHENTICATED` on a route for everybody.
    var person: Person {
        get throws(MartletError) {
            guard let signedIn else {
                throw MartletError(.unauthenticated, "There is no open session; sign in.")
            }
            return signedIn
        }
    }

    subscript(name: String) -> String { call[name] }

    func note(_ action: String, _ what: String, in project: String?) async throws {
        await console.note(action, what, in: project, by: try person)
    }

    // MARK: Query

    func query(_ name: String) throws(MartletError) -> String {
        guard let text = call.parameter(name) else {
            throw MartletError(.invalidArgument, "The parameter is missing.", field: name)
        }
        return text
    }

    var after: String { call.parameter("after") ?? "" }

    var limit: Int {
        get throws(MartletError) { try number("limit") ?? Limits.pageEntriesMax }
    }

    /// Entries of a page of the log.
    var logLimit: Int {
        get throws(MartletError) {
            let limit = try number("limit") ?? 100
            guard (1...Limits.pageEntriesMax).contains(limit) else {
                throw MartletError(
                    .invalidArgument, "A page has 1 to \(Limits.pageEntriesMax) entries.",
                    field: "limit")
            }
            return limit
        }
    }

    func number(_ name: String) throws(MartletError) -> Int? {
        guard let text = call.parameter(name) else { return nil }
        guard let number = Int(text) else {
            throw MartletError(.invalidArgument, "It takes a whole number.", field: name)
        }
        return number
    }

    // MARK: Body

    mutating func text(_ name: String) throws(MartletError) -> String {
        guard let field = fields.take(name) else {
            throw MartletError(.invalidArgument, "The field is missing.", field: name)
        }
        return try field.text()
    }

    mutating func text(ifThere name: String) throws(MartletError) -> String? {
        guard let field = fields.take(name), field.value != .null else { return nil }
        return try field.text()
    }

    mutating func flag(_ name: String) throws(MartletError) -> Bool {
        try fields.take(name)?.flag() ?? false
    }

    mutating func number(inBody name: String) throws(MartletError) -> Int? {
        guard let field = fields.take(name), field.value != .null else { return nil }
        return Int(try field.number())
    }

    mutating func texts(_ name: String) throws(MartletError) -> [String] {
        guard let field = fields.take(name) else {
            throw MartletError(.invalidArgument, "The field is missing.", field: name)
        }
        guard case .array(let values) = field.value else {
            throw field.refusal("It takes a list of strings.")
        }
        var texts: [String] = []
        for (index, value) in values.enumerated() {
            texts.append(try JSONField(value: value, path: "\(name)[\(index)]").text())
        }
        return texts
    }

    /// - Throws: `INVALID_ARGUMENT` if the body has further members.
    func finish() throws(MartletError) { try fields.finish(among: names) }
}

/// What a handler answers.
enum ConsoleReply: Sendable {
    /// JSON, and cookies of a session.
    case text(String, cookies: [String] = [])
    /// A whole answer, such as a stream of events.
    case whole(GatewayAnswer)

    static func json(_ value: some Encodable, cookies: [String] = []) -> ConsoleReply {
        .text(JSON.line(value), cookies: cookies)
    }

    /// The answer to a change that tells nothing.
    static let done = ConsoleReply.text("{}")

    var answer: GatewayAnswer {
        var answer: GatewayAnswer
        switch self {
        case .text(let text, let cookies):
            answer = GatewayAnswer(
                headers: [("content-type", "application/json; charset=UTF-8")],
                body: Array(text.utf8))
            answer.headers += cookies.map { ("set-cookie", $0) }
        case .whole(let whole): answer = whole
        }
        answer.headers += SafetyHeaders.ofAPI
        return answer
    }
}

/// A page of a list.
struct PageAnswer<Entry: Encodable>: Encodable {
    var entries: [Entry]
    /// Cursor for the next page; nil at the end of the list.
    var next: String?

    init<Value>(_ page: ListPage<Value>, _ entry: (Value) -> Entry) {
        entries = page.entries.map(entry)
        next = page.next
    }
}
