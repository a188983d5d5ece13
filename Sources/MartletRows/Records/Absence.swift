// SPDX-License-Identifier: Apache-2.0
//
// When STO-1 counts what an instance has stored: while it has no connection, and while a doze holds back
// what is not of high priority. Rests on the records.

public import MartletBase

/// A stretch of the project's messages in which an instance could not be given some of them.
public struct Absence: Sendable, Hashable {
    /// It begins behind this.
    public var from: MessageSequence
    /// The last message of it.
    public var through: MessageSequence
    /// The instance has a connection and is in doze: what of normal priority lies behind this is held back.
    private let heldFrom: MessageSequence?

    /// The instance has no connection: everything counts, and what waited before for an acknowledgement too.
    public static func away(from: MessageSequence, through: MessageSequence) -> Absence {
        Absence(from: from, through: through, heldFrom: nil)
    }

    /// The instance has a connection and is in doze: what is held back counts, and nothing else does, which
    /// may be on its way.
    public static func dozing(
        from: MessageSequence, through: MessageSequence, heldFrom: MessageSequence
    ) -> Absence {
        Absence(from: from, through: through, heldFrom: heldFrom)
    }

    public var isEmpty: Bool { through <= from }

    /// Whether a message was accepted in it, and not given to the instance then.
    package func counts(_ entry: LogEntry) -> Bool {
        entry.sequence > from && entry.sequence <= through && isKept(entry)
    }

    /// Whether a message from before it takes a place of those that may be stored.
    package func carries(_ entry: LogEntry) -> Bool {
        entry.sequence <= from && !entry.isAcknowledged && isKept(entry)
    }

    private func isKept(_ entry: LogEntry) -> Bool {
        guard let heldFrom else { return true }
        return entry.priority == .normal && entry.sequence > heldFrom
    }
}
