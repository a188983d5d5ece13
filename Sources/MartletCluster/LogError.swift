// SPDX-License-Identifier: Apache-2.0
//
// Why the log didn't answer. Each sentence says what happened and what to do. Pure.

package enum LogError: Error, Hashable, Sendable, CustomStringConvertible {
    /// No server of the log can be reached, or the connection was lost. The text says why, for each server.
    case unavailable(String)
    /// A server did not answer in time.
    case late
    /// A server showed rows, but didn't confirm in time that the standby has them too. After a restart such rows may be lost
    /// with the server.
    case unconfirmed(String)
    /// The server has no log.
    case missing
    /// The server already has a log.
    case present
    /// The server has another cluster's log.
    case foreign
    /// The rows after this place are gone. The log begins with `first`.
    case trimmed(first: UInt64)
    /// The log's history isn't the store's: a standby that lacks accepted rows has become the primary, or the store is another
    /// cluster's.
    case diverged(row: UInt64)
    /// The server refused, and nothing has changed.
    case server(code: String, text: String)
    /// A setting can't be used.
    case setting(String)

    package var description: String {
        switch self {
        case .unavailable(let text): "the log cannot be reached: \(text)"
        case .late: "the log did not answer in time; its standby may be away"
        case .unconfirmed(let text):
            "the log's server does not confirm its rows: \(text); its standby may be away"
        case .missing:
            """
            the database has no log: the URI names another database, or the log is lost; martlet cluster init \
            begins a cluster, and martlet cluster rebase begins a new log with the folder of a node
            """
        case .present:
            """
            the database has a log already; a new log needs an empty schema, and a cluster has one beginning: \
            other nodes join
            """
        case .foreign:
            """
            the log is of another cluster, or has begun anew; make the folder anew with martlet cluster \
            join, from a backup of another node
            """
        case .trimmed(let first):
            """
            the log begins with row \(first), and the store needs rows before it: the node was away for \
            too long; make its folder anew with martlet cluster join, from a backup of another node
            """
        case .diverged(let row):
            """
            the log has another history than the store from row \(row) on; accepted rows may be \
            lost in the log: stop, and compare the nodes with martlet cluster verify
            """
        case .server(let code, let text): "the log's server refuses (\(code)): \(text)"
        case .setting(let text): text
        }
    }
}
