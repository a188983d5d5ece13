// SPDX-License-Identifier: Apache-2.0
//
// The address of a console, with a one-time link for the person at the terminal. The secret is behind the #, so that no
// browser sends it in the address of a request. Rests on MartletAnswers.

import Martlet
import MartletAnswers

/// Where a console is.
struct ConsoleAddress {
    static let path = "/console/"

    /// The gateway's URL.
    var url: String
    /// The data folder.
    var folder: String

    /// The address with a one-time link for an administrator.
    /// - Parameter project: ID of the only project; nil: all projects.
    /// - Returns: the address alone, if the folder takes no link.
    func link(project: String? = nil, at now: Instant) -> String {
        do throws(MartletError) {
            return try newLink(role: .administrator, project: project, at: now)
        } catch {
            return url + Self.path
        }
    }

    /// - Throws: `UNAVAILABLE` if the folder takes no link.
    func newLink(
        role: ConsoleRole, project: String?, at now: Instant
    ) throws(MartletError) -> String {
        let secret = try AccessFile(in: folder).change { (list) throws(MartletError) in
            list.openLink(
                role: role, project: project, lifeSeconds: Limits.consoleLinkSeconds, at: now)
        }
        return "\(url)\(Self.path)#link=\(secret)"
    }

    /// The line for a starting broker: a link for a person at a terminal, and the address alone for a log.
    func line(at now: Instant) -> String {
        Terminal.hasScreen
            ? "The console, once and within an hour: \(link(at: now))"
            : "The console: \(url)\(Self.path) (`martlet console link` opens it)"
    }
}
