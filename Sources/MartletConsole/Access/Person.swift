// SPDX-License-Identifier: Apache-2.0
//
// The person behind a call: a session with the rights that its user has now. Rests on MartletAnswers.

import Martlet
import MartletAnswers

/// A person with an open session.
package struct Person: Sendable {
    /// Name of the user; `link` for a session of a one-time link.
    package let name: String
    let role: ConsoleRole
    /// ID of the only project that the person sees; nil: all projects.
    let project: String?
    /// The value that each change must bring in the header `x-martlet-csrf`.
    let csrf: String
    /// SHA-256 of the session's secret.
    let session: String
    /// Instant at which the session ends in any case.
    let ends: Instant
    /// Network address of the call.
    var address = ""

    /// For whom bounds count: the user. Each link is for a person of its own.
    var owner: String { name == "link" ? session : name }

    /// - Throws: `PERMISSION_DENIED`, with the same words for a project that does not exist.
    func require(_ role: ConsoleRole, in project: String?) throws(MartletError) {
        guard self.role >= role else {
            throw MartletError(
                .permissionDenied,
                "This takes the role \(role.rawValue), and yours is "
                    + "\(self.role.rawValue).")
        }
        guard self.project == nil || self.project == project else {
            throw MartletError(.permissionDenied, "You have no rights there.")
        }
    }
}
