// SPDX-License-Identifier: Apache-2.0
//
// When an instance's messages count against the limit of stored messages (STO-1): while it has no connection, and while its
// doze holds back messages of normal priority. Rests on the records.

public import MartletBase

/// A stretch of a project's messages during which an instance could not be given all of its messages.
public struct Absence: Sendable, Hashable {
    /// The last sequence before the absence.
    public var from: MessageSequence
    /// The last sequence of the absence.
    public var through: MessageSequence
    /// Set if the instance has a connection and is in doze: messages of normal priority behind this sequence are held
    /// back. nil: the instance has no connection.
    package let heldFrom: MessageSequence?

    /// The absence of an instance without a connection. All messages count, also messages from before the absence
    /// that wait for an acknowledgement.
    public static func away(from: MessageSequence, through: MessageSequence) -> Absence {
        Absence(from: from, through: through, heldFrom: nil)
    }

    /// The absence of a connected instance in doze. Only held messages count, because the others may be on their way.
    public static func dozing(
        from: MessageSequence, through: MessageSequence, heldFrom: MessageSequence
    ) -> Absence {
        Absence(from: from, through: through, heldFrom: heldFrom)
    }

    /// Whether the absence has no sequence.
    public var isEmpty: Bool { through <= from }

    /// Whether the message was accepted in the absence and was not given to the instance then.
    package func counts(_ entry: LogEntry) -> Bool {
        entry.sequence > from && entry.sequence <= through && isKept(entry)
    }

    /// Whether a message from before the absence takes one of the places for stored messages (STO-1).
    package func carries(_ entry: LogEntry) -> Bool {
        entry.sequence <= from && !entry.isAcknowledged && isKept(entry)
    }

    private func isKept(_ entry: LogEntry) -> Bool {
        guard let heldFrom else { return true }
        return entry.priority == .normal && entry.sequence > heldFrom
    }
}
