// SPDX-License-Identifier: Apache-2.0
//
// The people who may use the console, and the one-time links that are still open. The value decides, and writes nothing.
// Rests on PasswordRecord.

package import Martlet
import MartletCrypto

/// A person who may use the console.
package struct ConsoleUser: Codable, Sendable, Hashable {
    /// 1 to 64 characters of `[a-zA-Z0-9._@-]`.
    package var name: String
    package var role: ConsoleRole
    /// ID of the only project that the user sees; nil: all projects.
    package var project: String?
    /// Instant of creation, in milliseconds since 1970.
    package var created: Int64
    package var password: PasswordRecord
}

/// A link that begins a session once.
package struct ConsoleLink: Codable, Sendable, Hashable {
    /// SHA-256 of the link's secret.
    package var digest: String
    package var role: ConsoleRole
    /// ID of the only project; nil: all projects.
    package var project: String?
    /// Instant from which the link opens nothing, in milliseconds since 1970.
    package var expires: Int64
}

/// Who may use the console.
package struct AccessList: Codable, Sendable, Hashable {
    /// In the order of names.
    package private(set) var users: [ConsoleUser] = []
    package private(set) var links: [ConsoleLink] = []

    package init() {}

    /// Links that are open at a time: a person needs one.
    private static let linksMax = 16

    package func user(_ name: String) -> ConsoleUser? { users.first { $0.name == name } }

    /// Adds a user.
    /// - Throws: `INVALID_ARGUMENT` for name and password, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED`.
    package mutating func add(
        _ name: String, role: ConsoleRole, project: String?, password: String, at now: Instant
    ) throws(MartletError) {
        try Self.check(name)
        guard user(name) == nil else {
            throw MartletError(.alreadyExists, "There is a user \(name).", field: "name")
        }
        guard users.count < Limits.consoleUsersMax else {
            throw MartletError(
                .resourceExhausted, "There are \(Limits.consoleUsersMax) users already.")
        }
        users.append(
            ConsoleUser(
                name: name, role: role, project: project, created: now.millisecondsSince1970,
                password: try PasswordRecord(of: password)))
        users.sort { $0.name < $1.name }
    }

    /// Sets the password of a user. Open sessions of the user end.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    package mutating func setPassword(
        _ password: String, of name: String
    ) throws(MartletError) {
        guard let place = users.firstIndex(where: { $0.name == name }) else {
            throw Self.unknown(name)
        }
        users[place].password = try PasswordRecord(of: password)
    }

    /// Removes a user. Open sessions of the user end.
    /// - Throws: `NOT_FOUND`.
    package mutating func remove(_ name: String) throws(MartletError) {
        guard users.contains(where: { $0.name == name }) else { throw Self.unknown(name) }
        users.removeAll { $0.name == name }
    }

    private static func unknown(_ name: String) -> MartletError {
        MartletError(.notFound, "There is no user \(name).", field: "name")
    }

    /// Names in the log of actions that are no users.
    private static let reserved: Set<String> = ["link", "command"]

    private static func check(_ name: String) throws(MartletError) {
        let isValid = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "@"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard isValid, (1...64).contains(name.utf8.count) else {
            throw MartletError(
                .invalidArgument,
                "A user's name has 1 to 64 characters of a-z, A-Z, 0-9, '.', '_', "
                    + "'@' and '-'.", field: "name")
        }
        guard !reserved.contains(name.lowercased()) else {
            throw MartletError(
                .invalidArgument, "The log of actions uses the name \(name) itself.", field: "name")
        }
    }

    // MARK: Links

    /// Opens a link.
    /// - Returns: the secret of the link, which is kept nowhere.
    package mutating func openLink(
        role: ConsoleRole, project: String?, lifeSeconds: Int64, at now: Instant
    ) -> String {
        let secret = Base64URL.encode(RandomBytes.make(24))
        removeExpired(at: now)
        if links.count >= Self.linksMax { links.removeFirst() }
        links.append(
            ConsoleLink(
                digest: Self.digest(secret), role: role, project: project,
                expires: now.millisecondsSince1970 + lifeSeconds * 1000))
        return secret
    }

    /// Uses a link, which then opens nothing more.
    /// - Returns: nil for an unknown, used or expired link.
    package mutating func useLink(_ secret: String, at now: Instant) -> ConsoleLink? {
        removeExpired(at: now)
        let digest = Self.digest(secret)
        guard let place = links.firstIndex(where: { $0.digest == digest }) else { return nil }
        return links.remove(at: place)
    }

    private mutating func removeExpired(at now: Instant) {
        links.removeAll { $0.expires <= now.millisecondsSince1970 }
    }

    private static func digest(_ secret: String) -> String {
        Base64URL.encode(SHA256.hash(Array(secret.utf8)))
    }
}

/// The JSON of a user of the console. Property names are the names in the JSON output.
package struct ConsoleUserAnswer: Encodable, Sendable {
    package var name: String
    package var role: ConsoleRole
    /// nil: all projects.
    package var project: String?
    /// Milliseconds since 1970.
    package var created: Int64

    package init(_ user: ConsoleUser) {
        name = user.name
        role = user.role
        project = user.project
        created = user.created
    }
}
