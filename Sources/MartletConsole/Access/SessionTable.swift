// SPDX-License-Identifier: Apache-2.0
//
// Open sessions, bounded in number and in time. The value decides, and writes nothing. Rests on Limits.

import Martlet
import MartletAccess

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
}

/// The open sessions of a console.
struct SessionTable: Sendable {
    private(set) var sessions: [String: Session] = [:]

    init() {}

    /// Takes over sessions of an earlier run.
    init(_ kept: [Session]) {
        for session in kept.prefix(Limits.consoleSessionsMax) { sessions[session.digest] = session }
    }

    /// Adds a session. Beyond the bound, the session that was silent longest ends.
    mutating func add(_ session: Session) {
        if sessions.count >= Limits.consoleSessionsMax,
            let oldest = sessions.values.min(by: { $0.seen < $1.seen })
        {
            sessions[oldest.digest] = nil
        }
        sessions[session.digest] = session
    }

    mutating func end(_ digest: String) { sessions[digest] = nil }

    /// The session with the rights that its user has now.
    /// - Returns: nil for a session that is unknown, too old, silent for too long, or of a changed user. Such a session
    ///   ends.
    mutating func use(_ digest: String, _ list: AccessList, at now: Instant) -> Session? {
        guard var session = sessions[digest] else { return nil }
        let milliseconds = now.millisecondsSince1970
        guard milliseconds < session.began + Limits.consoleSessionSeconds * 1000,
            milliseconds < session.seen + Limits.consoleIdleSeconds * 1000
        else {
            sessions[digest] = nil
            return nil
        }
        if let name = session.user {
            guard let user = list.user(name), user.password == session.password else {
                sessions[digest] = nil
                return nil
            }
            session.role = user.role
            session.project = user.project
        }
        session.seen = max(session.seen, milliseconds)
        sessions[digest] = session
        return session
    }
}
