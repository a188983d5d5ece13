// SPDX-License-Identifier: Apache-2.0
//
// Users and sessions of a console. Sessions are kept in `console.sessions` of the data folder, so that an open page goes on
// after a restart of the broker; the file has the secret of the cookies' marks, and digests of the sessions' secrets alone.
// Rests on AccessFile, SessionTable and Cookies.

import FoundationEssentials
import Glibc
package import Martlet
import MartletAnswers
import MartletCrypto
import MartletFiles
import Synchronization

/// The users of a console, and their open sessions.
package final class People: Sendable {
    private struct State {
        var table = SessionTable()
        var list = AccessList()
        var stamp: AccessFile.Stamp?
        /// Milliseconds since 1970 at which the file of sessions was written last.
        var written: Int64 = 0
    }

    /// A silent session's time is written to the file at most once in this many milliseconds.
    private static let writtenMilliseconds: Int64 = 60_000

    /// The content of `console.sessions`.
    private struct Kept: Codable {
        /// The secret of the cookies, in base64url.
        var secret: String
        var sessions: [Session]
    }

    let file: AccessFile
    let cookies: Cookies
    private let secret: String
    private let path: String
    private let clock: @Sendable () -> Instant
    private let state: Mutex<State>

    init(folder: String, isSecure: Bool, clock: @escaping @Sendable () -> Instant) {
        file = AccessFile(in: folder)
        path = folder + "/console.sessions"
        self.clock = clock
        var state = State()
        let kept = FileManager.default.contents(atPath: path).flatMap {
            try? JSONDecoder().decode(Kept.self, from: $0)
        }
        if let kept { state.table = SessionTable(kept.sessions) }
        let bytes = kept.flatMap { Base64URL.decode($0.secret) } ?? RandomBytes.make(32)
        secret = Base64URL.encode(bytes)
        cookies = Cookies(bytes, isSecure: isSecure)
        self.state = Mutex(state)
    }

    // MARK: Sessions

    /// The person whose session a cookie has.
    /// - Parameter isUse: whether the call prolongs the session; false for a call without an act of the person.
    /// - Throws: `UNAUTHENTICATED` without an open session, `UNAVAILABLE` if the file of users cannot be read.
    package func session(
        in cookie: String, isUse: Bool = true
    ) throws(MartletError) -> Person {
        for secret in cookies.sessions(in: cookie) {
            if let person = try person(secret, isUse: isUse) { return person }
        }
        throw Self.noSession
    }

    private static let noSession = MartletError(
        .unauthenticated, "There is no open session; sign in.")

    /// nil: the session is over.
    private func person(_ secret: String, isUse: Bool) throws(MartletError) -> Person? {
        let digest = Self.digest(secret)
        let now = clock()
        let (session, isDue) = try state.withLock { (state) throws(MartletError) in
            try refresh(&state)
            guard isUse else { return (state.table.look(digest, state.list, at: now), false) }
            let session = state.table.use(digest, state.list, at: now)
            let isDue = now.millisecondsSince1970 > state.written + Self.writtenMilliseconds
            return (session, isDue && session != nil)
        }
        if isDue { write() }
        return session.map { Self.person($0, secret) }
    }

    private static func person(_ session: Session, _ secret: String) -> Person {
        Person(
            name: session.user ?? "link", role: session.role, project: session.project,
            csrf: digest("csrf " + secret), session: session.digest,
            ends: Instant(
                millisecondsSince1970: session.began + Limits.consoleSessionSeconds * 1000))
    }

    /// Whether a session is still open. A look does not prolong the session.
    func isOpen(_ person: Person) -> Bool {
        let now = clock()
        return state.withLock { state in
            guard (try? refresh(&state)) != nil else { return false }
            guard let session = state.table.look(person.session, state.list, at: now)
            else { return false }
            return session.role == person.role && session.project == person.project
        }
    }

    /// Begins a session of a user whose password was right.
    /// - Parameter cookie: the browser's cookies, whose sessions end.
    /// - Returns: the secret for the cookie, and the person.
    func begin(_ user: ConsoleUser, after cookie: String) -> (secret: String, person: Person) {
        endSessions(in: cookie)
        return begin(
            user: user.name, password: user.password, role: user.role, project: user.project)
    }

    /// Begins a session of a one-time link.
    /// - Parameter cookie: the browser's cookies, whose sessions end.
    /// - Returns: nil for a link that is unknown, used or too old.
    /// - Throws: `UNAVAILABLE` if the file of users cannot be changed.
    func begin(
        link secret: String, after cookie: String
    ) throws(MartletError) -> (secret: String, person: Person)? {
        let now = clock()
        let link = try file.change { (list) throws(MartletError) in list.useLink(secret, at: now) }
        guard let link else { return nil }
        endSessions(in: cookie)
        return begin(user: nil, password: nil, role: link.role, project: link.project)
    }

    private func begin(
        user: String?, password: PasswordRecord?, role: ConsoleRole, project: String?
    ) -> (secret: String, person: Person) {
        let secret = Base64URL.encode(RandomBytes.make(32))
        let now = clock().millisecondsSince1970
        let session = Session(
            digest: Self.digest(secret), user: user, password: password, role: role,
            project: project, began: now, seen: now)
        state.withLock { $0.table.add(session) }
        write()
        return (secret, Self.person(session, secret))
    }

    func end(_ person: Person) {
        state.withLock { $0.table.end(person.session) }
        write()
    }

    /// Ends the sessions of a browser that signs in again.
    private func endSessions(in cookie: String) {
        let digests = cookies.sessions(in: cookie).map { Self.digest($0) }
        state.withLock { state in for digest in digests { state.table.end(digest) } }
    }

    /// The list of users. The file is read again if another process has changed it.
    func list() throws(MartletError) -> AccessList {
        try state.withLock { (state) throws(MartletError) in
            try refresh(&state)
            return state.list
        }
    }

    private func refresh(_ state: inout State) throws(MartletError) {
        let stamp = file.stamp
        guard stamp != state.stamp else { return }
        state.list = try file.read()
        state.stamp = stamp
    }

    /// Writes the sessions. Without the file sessions end with the broker, so a failure has no other effect.
    private func write() {
        let now = clock().millisecondsSince1970
        state.withLock { state in
            state.written = now
            let sessions = state.table.sessions.values.sorted { $0.digest < $1.digest }
            guard let bytes = try? JSONEncoder().encode(Kept(secret: secret, sessions: sessions))
            else { return }
            _ = try? PrivateFile.replace(path, with: Array(bytes))
        }
    }

    private static func digest(_ secret: String) -> String {
        Base64URL.encode(SHA256.hash(Array(secret.utf8)))
    }
}
