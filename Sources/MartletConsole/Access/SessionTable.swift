// SPDX-License-Identifier: Apache-2.0
//
// Open sessions, bounded in number and in time. The value decides, and writes nothing. Rests on Limits.

import Martlet
import MartletAnswers

/// A session of a person.
struct Session: Codable, Sendable, Hashable {
    /// SHA-256 of the session's secret, which only the browser has.
    var digest: String
    /// Name of the user; nil for a session of a one-time link.
    var user: String?
    /// The user's record at the login: a session ends when the user is changed or removed.
    var password: PasswordRecord?
    /// Rights of a link.
    var role: ConsoleRole
    var project: String?
    /// Milliseconds since 1970.
    var began: Int64
    var seen: Int64

    /// For whom bounds count: the user. Each link is for a person of its own.
    var owner: String { user ?? digest }
}

/// The open sessions of a console.
struct SessionTable: Sendable {
    private(set) var sessions: [String: Session] = [:]

    init() {}

    /// Takes over sessions of an earlier run.
    init(_ kept: [Session]) {
        for session in kept.prefix(Limits.consoleSessionsMax) { sessions[session.digest] = session }
    }

    /// Adds a session. Beyond the bound for a user, the user's session that was silent longest ends. Beyond the bound
    /// for all, a session of the user with most sessions ends, so a user cannot end the sessions of another user.
    mutating func add(_ session: Session) {
        let own = sessions.values.filter { $0.owner == session.owner }
        if own.count >= Limits.consoleSessionsPerUserMax {
            endSilent(of: own)
        } else if sessions.count >= Limits.consoleSessionsMax {
            let byUser = Dictionary(grouping: sessions.values) { $0.owner }
            endSilent(of: byUser.values.max { $0.count < $1.count } ?? [])
        }
        sessions[session.digest] = session
    }

    private mutating func endSilent(of some: [Session]) {
        guard let oldest = some.min(by: { $0.seen < $1.seen }) else { return }
        sessions[oldest.digest] = nil
    }

    mutating func end(_ digest: String) { sessions[digest] = nil }

    /// The session with the present rights of the user. The session goes on.
    /// - Returns: nil for a session that is unknown, too old, silent for too long, or of a changed user. Such a session
    ///   ends.
    mutating func use(_ digest: String, _ list: AccessList, at now: Instant) -> Session? {
        guard var session = look(digest, list, at: now) else {
            sessions[digest] = nil
            return nil
        }
        session.seen = max(session.seen, now.millisecondsSince1970)
        sessions[digest] = session
        return session
    }

    /// As `use`, without a change.
    func look(_ digest: String, _ list: AccessList, at now: Instant) -> Session? {
        guard var session = sessions[digest] else { return nil }
        let milliseconds = now.millisecondsSince1970
        guard milliseconds < session.began + Limits.consoleSessionSeconds * 1000,
            milliseconds < session.seen + Limits.consoleIdleSeconds * 1000
        else { return nil }
        if let name = session.user {
            guard let user = list.user(name), user.password == session.password else { return nil }
            session.role = user.role
            session.project = user.project
        }
        return session
    }
}
