// SPDX-License-Identifier: Apache-2.0
//
// An entry of the log of administrators' actions. Texts of an entry come from people, and are shown to other people: an
// entry has no character that moves text or hides it. Pure.

package import Martlet

/// An action of an administrator.
package struct AuditEntry: Codable, Sendable, Hashable {
    /// Number of the entry, rising by 1; 0 before the entry is in the log.
    package var number: UInt64 = 0
    /// Milliseconds since 1970.
    package var at: Int64
    /// Name of the user of the console; `link` for a one-time link; `command` for a command on the folder.
    package var who: String
    /// Network address; `this machine` for a command.
    package var from: String
    /// ID of the project; nil: the action concerns the broker.
    package var project: String?
    /// The action, such as `key.create`.
    package var action: String
    /// The object of the action, such as a key's ID. Never a secret.
    package var what: String

    package init(
        at: Instant, who: String, from: String, project: String?, action: String, what: String
    ) {
        self.at = at.millisecondsSince1970
        self.who = who
        self.from = from
        self.project = project
        self.action = action
        self.what = Self.plain(what)
    }

    /// Longest object of an entry, in bytes of UTF-8; the rest is cut.
    private static let whatBytesMax = 200

    /// The text without control characters and without characters that turn or hide text, and not too long.
    private static func plain(_ text: String) -> String {
        var plain = ""
        for scalar in text.unicodeScalars {
            guard plain.utf8.count < whatBytesMax else { return plain + "…" }
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator:
                plain.unicodeScalars.append("\u{FFFD}")
            default: plain.unicodeScalars.append(scalar)
            }
        }
        return plain
    }
}

/// A page of the log, the newest entry first.
package struct AuditPage: Encodable, Sendable {
    package var entries: [AuditEntry]
    /// Number below which the next page begins; nil at the end.
    package var next: UInt64?
}
