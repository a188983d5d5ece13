// SPDX-License-Identifier: Apache-2.0
//
// The ways in which a statement fails. The way tells whether the statement may have taken effect. Rests on LogError.

import MartletCluster

/// A failure of a connection or of a statement.
package enum PostgresError: Error, Hashable, Sendable, CustomStringConvertible {
    /// No connection was made, so no statement was sent.
    case unreachable(String)
    /// The deadline is over. A statement may still take effect; the connection is of no use any more.
    case late
    /// The connection was lost. A statement may have taken effect.
    case lost(String)
    /// The server has refused the statement without a change. The connection goes on.
    case server(code: String, text: String)

    package var description: String {
        switch self {
        case .unreachable(let text), .lost(let text): text
        case .late: "no answer in time"
        case .server(let code, let text): "\(text) (\(code))"
        }
    }

    var logError: LogError {
        switch self {
        case .unreachable(let text), .lost(let text): .unavailable(text)
        case .late: .late
        case .server(PostgresCode.undefinedTable, _): .missing
        case .server(let code, let text): .server(code: code, text: text)
        }
    }
}

/// Codes of errors with a meaning to the log. Source: PostgreSQL 15, appendix A.
enum PostgresCode {
    static let uniqueViolation = "23505"
    /// No partition has room for a row.
    static let checkViolation = "23514"
    static let readOnly = "25006"
    static let duplicateTable = "42P07"
    static let undefinedTable = "42P01"
    static let lockNotAvailable = "55P03"
}
