// SPDX-License-Identifier: Apache-2.0
//
// REP-1: counts of queued messages, by message and by app, until the store is told. A walk counts in a small table
// by app number, mostly a few cache lines, and adds the table up at the end of its turn. Rests on Session.

import MartletBase
public import MartletEngine

/// Counts of messages queued for sessions since the last hand-over to the store.
struct SentCounts {
    struct Message: Hashable {
        var project: ProjectNumber
        var sequence: MessageSequence
    }

    struct Share: Hashable {
        var project: ProjectNumber
        var app: AppNumber
    }

    var messages: [Message: UInt64] = [:]
    var shares: [Share: UInt64] = [:]

    var isEmpty: Bool { shares.isEmpty && messages.isEmpty }
}

extension Delivery {
    /// App numbers below this value fit into `Session.app`; higher app numbers are looked up.
    static var appsInTurn: Int { Int(UInt8.max) }

    /// Counts messages that were queued for a session in the turn of its project.
    @inline(__always)
    func countInTurn(_ count: Int, _ session: UnsafeMutablePointer<Session>, _ index: UInt32) {
        let app = Int(session.pointee.app)
        let slot =
            app < Self.appsInTurn ? app : slotOfHighApp(index)
        turnSent[slot] &+= UInt32(truncatingIfNeeded: count)
        let last = turnSent + turnSentCapacity
        if slot > last.pointee { last.pointee = UInt32(truncatingIfNeeded: slot) }
    }

    @inline(never)
    private func slotOfHighApp(_ index: UInt32) -> Int {
        Int(kinds[devices[Int(index)].kind].app.rawValue) % turnSentCapacity
    }

    /// Ends a project's turn and adds up its counts.
    mutating func endSentTurn(of project: ProjectNumber) {
        let last = Int(turnSent[turnSentCapacity])
        invariant(last < turnSentCapacity, "The counts of a turn lie in their table.")
        turnSent[turnSentCapacity] = 0
        for app in 0...last where turnSent[app] > 0 {
            let share = SentCounts.Share(project: project, app: AppNumber(UInt32(app)))
            sent.shares[share, default: 0] += UInt64(turnSent[app])
            turnSent[app] = 0
        }
    }

    mutating func count(_ sequence: MessageSequence, _ count: Int, of project: ProjectNumber) {
        guard count > 0, sequence.isStored else { return }
        sent.messages[SentCounts.Message(project: project, sequence: sequence), default: 0] +=
            UInt64(count)
    }

    /// Whether counts wait for the store.
    public var hasSent: Bool { !sent.isEmpty }

    /// Takes the counts since the last call: an entry without a sequence for each app, and an entry for each stored
    /// message.
    public mutating func takeSent() -> [SentCount] {
        var taken = SentCounts()
        swap(&taken, &sent)
        return taken.shares.map {
            SentCount(
                project: $0.key.project, sequence: nil, app: $0.key.app, count: $0.value)
        }
            + taken.messages.map {
                SentCount(
                    project: $0.key.project, sequence: $0.key.sequence, app: AppNumber(0),
                    count: $0.value)
            }
    }
}
