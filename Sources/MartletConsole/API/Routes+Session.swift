// SPDX-License-Identifier: Apache-2.0
//
// Signing in and out (GW-9). A wrong password is a wrong credential of the gateway: it is logged, and the refusals of an
// address with many are held back (REG-10). Rests on People and LoginTurns.

import Martlet
import MartletAccess
import MartletGateway

/// Who is signed in.
private struct SessionAnswer: Encodable {
    var user: String
    var role: ConsoleRole
    /// ID of the only project; nil: all projects.
    var project: String?
    /// The value for the header `x-martlet-csrf` of each change.
    var csrf: String
    /// Milliseconds since 1970 at which the session ends in any case.
    var ends: Int64

    init(_ person: Person) {
        user = person.name
        role = person.role
        project = person.project
        csrf = person.csrf
        ends = person.ends.millisecondsSince1970
    }
}

extension ConsoleRoute {
    static let session = [
        ConsoleRoute(
            "session.begin", .post, "session", .anyone,
            "Sign in with a password or a one-time link.",
            body: [
                Field("name", .string, "Name of the user."),
                Field("password", .string, "Password of the user."),
                Field("link", .string, "Secret of a one-time link, in place of the two."),
            ],
            answer: "The signed-in user; the cookie of the session is set.",
            schema: .session
        ) { call in
            var call = call
            try Origin.require(call.call)
            let link = try call.text(ifThere: "link")
            let name = try call.text(ifThere: "name")
            let password = try call.text(ifThere: "password")
            try call.finish()
            var person: Person
            let secret: String
            if let link {
                guard let began = try call.console.people.begin(link: link) else {
                    throw wrong(
                        "one-time link",
                        "The link was used already, or is too old. `martlet console link` prints another."
                    )
                }
                (secret, person) = began
            } else {
                let user = try call.console.people.list().user(name ?? "")
                guard try await call.console.logins.isRight(password ?? "", of: user), let user
                else { throw wrong("console password", "The name or the password is wrong.") }
                (secret, person) = call.console.people.begin(user)
            }
            person.address = call.call.peer ?? "an unknown address"
            call.console.note("session.begin", "", in: person.project, by: person)
            return .json(
                SessionAnswer(person),
                cookie: cookie(secret, seconds: Limits.consoleSessionSeconds, call.console))
        },
        ConsoleRoute(
            "session.show", .get, "session", .anyone, "Tell who is signed in.",
            answer: "The signed-in user; an empty object for nobody.",
            schema: .either([.session, .nothing])
        ) { call in
            // A page asks before it knows: nobody is no error then.
            let person = call.call.header("cookie").flatMap {
                try? call.console.people.session(
                    in: $0, isSecure: call.console.configuration.isSecure)
            }
            return person.map { .json(SessionAnswer($0)) } ?? .done
        },
        ConsoleRoute(
            "session.end", .delete, "session", .role(.viewer), "Sign out.",
            answer: "An empty object; the cookie is removed.",
            schema: .nothing
        ) { call in
            call.console.people.end(try call.person)
            return .text("{}", cookie: cookie("", seconds: 0, call.console))
        },
    ]

    private static func wrong(_ kind: String, _ words: String) -> WrongCredential {
        WrongCredential(
            kind: kind, refusal: GatewayError(MartletError(.unauthenticated, words)))
    }

    private static func cookie(_ value: String, seconds: Int64, _ console: Console) -> String {
        let isSecure = console.configuration.isSecure
        // A name with __Host- binds the cookie to this host and to TLS. Source: RFC 6265bis §4.1.3.
        let name = People.cookieName(isSecure: isSecure)
        return "\(name)=\(value); Path=/; Max-Age=\(seconds); HttpOnly; SameSite=Strict"
            + (isSecure ? "; Secure" : "")
    }
}
