// SPDX-License-Identifier: Apache-2.0
//
// What a user of the console may do. Pure.

/// The rights of a user of the console. A higher role has all rights of the lower roles.
package enum ConsoleRole: String, Codable, Sendable, CaseIterable, Comparable {
    /// Reads everything but keys.
    case viewer
    /// Sends and cancels messages, and changes subscriptions and groups too.
    case sender
    /// Changes projects, apps, keys and users too, and reads the log.
    case administrator

    private var rank: Int {
        switch self {
        case .viewer: 0
        case .sender: 1
        case .administrator: 2
        }
    }

    package static func < (one: Self, other: Self) -> Bool { one.rank < other.rank }
}
