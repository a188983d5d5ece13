// SPDX-License-Identifier: Apache-2.0
//
// Counts queued messages by message and by app until the store is told (REP-1). A walk counts in a small table by app
// number, mostly a few cache lines, and adds it up at the end of its turn. Rests on Session.

import MartletBase
package import MartletEngine

/// Messages queued since the store was last told. A message for one instance is counted once, so its count is just appended;
/// the counts of others are looked up.
struct SentCounts {
    struct Message: Hashable, Comparable {
        var project: ProjectNumber
        var sequence: MessageSequence

        static func < (left: Message, right: Message) -> Bool {
            (left.project, left.sequence) < (right.project, right.sequence)
        }
    }

    struct Share: Hashable {
        var project: ProjectNumber
        var app: AppNumber
    }

    private var messages = AscendingTable<Message, UInt64>()
    private var shares: [Share: UInt64] = [:]
    /// Messages for one instance, in the form for the store.
    private var direct: [SentCount] = []
    /// The last turn's share: turns of the same app tend to follow each other.
    private var lastShare: (share: Share, count: UInt64)?

    var isEmpty: Bool {
        shares.isEmpty && messages.isEmpty && direct.isEmpty && lastShare == nil
    }

    mutating func add(_ count: UInt64, to message: Message) {
        messages.update(message, default: 0) { $0 += count }
    }

    mutating func addDirect(_ message: Message) {
        direct.append(
            SentCount(
                project: message.project, sequence: message.sequence, app: AppNumber(0), count: 1))
    }

    mutating func add(_ count: UInt64, to share: Share) {
        if let lastShare {
            if lastShare.share == share {
                self.lastShare?.count += count
                return
            }
            shares[lastShare.share, default: 0] += lastShare.count
        }
        lastShare = (share, count)
    }

    /// Takes the counts: an entry without a sequence for each app, and the entries of stored messages.
    mutating func take() -> [SentCount] {
        if let lastShare { shares[lastShare.share, default: 0] += lastShare.count }
        defer { self = SentCounts() }
        return shares.map {
            SentCount(
                project: $0.key.project, sequence: nil, app: $0.key.app, count: $0.value)
        }
            + messages.take().map {
                SentCount(
                    project: $0.key.project, sequence: $0.key.sequence, app: AppNumber(0),
                    count: $0.value)
            } + direct
    }
}

extension Delivery {
    /// Smaller app numbers fit into `Session.app`; others are looked up.
    static var appsInTurn: Int { Int(UInt8.max) }

    /// Counts messages that were queued for a session in its project's turn.
    @inline(__always)
    func countInTurn(_ count: Int, _ session: UnsafeMutablePointer<Session>, _ index: UInt32) {
        let app = Int(session.pointee.app)
        let slot =
            app < Self.appsInTurn ? app : slotOfHighApp(index)
        assert(slot < turnSentCapacity, "The counts of a turn lie in their table.")
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
            sent.add(UInt64(turnSent[app]), to: share)
            turnSent[app] = 0
        }
    }

    mutating func count(_ sequence: MessageSequence, _ count: Int, of project: ProjectNumber) {
        guard count > 0, sequence.isStored else { return }
        sent.add(
            UInt64(count), to: SentCounts.Message(project: project, sequence: sequence))
    }

    /// Counts a message for one instance.
    mutating func countDirect(_ sequence: MessageSequence, of project: ProjectNumber) {
        guard sequence.isStored else { return }
        sent.addDirect(SentCounts.Message(project: project, sequence: sequence))
    }

    /// Whether counts wait for the store.
    package var hasSent: Bool { !sent.isEmpty }

    /// Takes the counts since the last call: an entry without a sequence for each app, and an entry for each stored
    /// message.
    package mutating func takeSent() -> [SentCount] {
        sent.take()
    }
}
