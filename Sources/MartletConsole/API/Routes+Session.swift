// SPDX-License-Identifier: Apache-2.0
//
// Signing in and out (GW-9). A wrong password is a wrong credential of the gateway: it is logged, and the refusals of an
// address with many are held back (REG-10). Rests on People, Cookies and LoginTurns.

import Martlet
import MartletAnswers
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
            let (people, cookie) = (call.console.people, call.call.header("cookie") ?? "")
            var person: Person
            let secret: String
            var what = ""
            var cookies: [String] = []
            if let link {
                guard let began = try people.begin(link: link, after: cookie) else {
                    throw wrong(
                        "one-time link",
                        "The link was used already, or is too old. `martlet console link` prints another."
                    )
                }
                (secret, person) = began
            } else {
                let (user, count) = try await signedIn(name ?? "", password ?? "", call)
                if count > 0 { what = "after \(count) wrong passwords" }
                (secret, person) = people.begin(user, after: cookie)
                cookies.append(people.cookies.know(user.name))
            }
            cookies.append(people.cookies.begin(secret))
            person.address = call.call.peer ?? "an unknown address"
            await call.console.note("session.begin", what, in: person.project, by: person)
            return .json(SessionAnswer(person), cookies: cookies)
        },
        ConsoleRoute(
            "session.show", .get, "session", .anyone, "Tell who is signed in.",
            answer: "The signed-in user; an empty object for nobody.",
            schema: .either([.session, .nothing])
        ) { call in
            // A page asks before it knows: nobody is no error then.
            let person = call.call.header("cookie").flatMap {
                try? call.console.people.session(
                    in: $0, isUse: call.call.header(background) == nil)
            }
            return person.map { .json(SessionAnswer($0)) } ?? .done
        },
        ConsoleRoute(
            "session.end", .delete, "session", .role(.viewer), "Sign out.",
            answer: "An empty object; the cookie is removed.",
            schema: .nothing
        ) { call in
            let (people, person) = (call.console.people, try call.person)
            people.end(person)
            try await call.note("session.end", "", in: person.project)
            return .text("{}", cookies: [people.cookies.end])
        },
        ConsoleRoute(
            "session.password", .post, "session/password", .role(.viewer),
            "Change one's own password. All other sessions of the user end.",
            body: [
                Field("current", .string, isRequired: true, "The password until now."),
                Field("next", .string, isRequired: true, "The new password: 8 to 256 bytes."),
            ], answer: "The signed-in user; the cookie of a new session is set.", schema: .session
        ) { call in
            var call = call
            let current = try call.text("current")
            let next = try call.text("next")
            try call.finish()
            let (people, former) = (call.console.people, try call.person)
            guard let user = try people.list().user(former.name) else {
                throw MartletError(
                    .invalidArgument, "This session came from a link, and has no password.")
            }
            let attempt = LoginAttempt(
                name: user.name, password: current, user: user, network: call.call.network,
                isKnown: true)
            guard try await call.console.logins.compare(attempt) != nil else {
                throw wrong("console password", "The password until now is wrong.")
            }
            let changed = try people.file.change { (list) throws(MartletError) in
                try list.setPassword(next, of: user.name)
                return list.user(user.name) ?? user
            }
            var (secret, person) = people.begin(changed, after: call.call.header("cookie") ?? "")
            person.address = former.address
            await call.console.note("user.password", user.name, in: person.project, by: person)
            return .json(SessionAnswer(person), cookies: [people.cookies.begin(secret)])
        },
    ]

    private static func wrong(_ kind: String, _ words: String) -> WrongCredential {
        WrongCredential(
            kind: kind, refusal: GatewayError(MartletError(.unauthenticated, words)))
    }

    /// The user whose name and password are right, and the number of wrong passwords before.
    private static func signedIn(
        _ name: String, _ password: String, _ call: ConsoleCall
    ) async throws -> (user: ConsoleUser, wrongCount: Int) {
        let people = call.console.people
        let isKnown = people.cookies.isKnown(name, in: call.call.header("cookie") ?? "")
        // A browser that is known signs in beside an attack from its own network.
        guard isKnown || !call.call.hasTooManyRefusals(at: call.broker) else {
            throw MartletError(
                .resourceExhausted,
                "Too many credentials from this address were refused; try again in a minute.",
                retryDelayMilliseconds: 60_000)
        }
        let user = try people.list().user(name)
        let attempt = LoginAttempt(
            name: name, password: password, user: user, network: call.call.network,
            isKnown: isKnown)
        guard let count = try await call.console.logins.compare(attempt), let user else {
            throw wrong("console password", "The name or the password is wrong.")
        }
        return (user, count)
    }
}
