// SPDX-License-Identifier: Apache-2.0
//
// Bounds the acknowledgements of a transaction. Every commit waits for it, and a device that returns to a hundred thousand
// messages acknowledges as many. So each project gets a bounded part of the transaction, in bounded steps, and the rest goes
// into the next. An acknowledgement can be applied in parts, because one up to an earlier message would have been just as
// valid.
//
// Two kinds are applied whole: those of a connection that has ended, together with its end, and the list of a device that
// connects, together with the start of the connection, because the mailbox is read after the list. Rests on Command.

package import MartletBase

/// Bounds on a transaction's acknowledgements. Costs are in units of about three microseconds: an acknowledgement, or a
/// message that is counted for one.
package struct AcknowledgingBounds: Sendable {
    /// Units of all projects.
    package var costMax: Int
    /// Units of a project.
    package var costPerProjectMax: Int
    /// Most inbox rows, and most single stream IDs, of an instance in a step.
    package var inboxRowsPerStep = 256
    package var singlesPerStep = 256
    /// How much of a project's log a step looks at: so many pieces, of so many messages.
    package var piecesPerStep: Int
    package var messagesPerPiece: UInt64 = 256
    /// Messages with sent counts in a transaction.
    package var sentCountsMax = 1024

    package init(costMax: Int, costPerProjectMax: Int, piecesPerStep: Int) {
        self.costMax = costMax
        self.costPerProjectMax = costPerProjectMax
        self.piecesPerStep = piecesPerStep
    }

    /// Bounds for a project that is alone (FAN-4).
    package static let alone = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 2048, piecesPerStep: 4)
    /// Bounds while several projects wait for the transaction.
    package static let shared = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 256, piecesPerStep: 1)
}

/// What a transaction's acknowledgements have cost so far, against the bounds.
package struct AcknowledgingBudget {
    /// Units for removing an inbox row.
    package static let costPerInboxRow = 2
    /// So many fanouts cost a unit to look at, if they weren't for the instance.
    private static let looksPerUnit = 32
    /// So many instances cost a unit to postpone to another step.
    private static let postponedPerUnit = 16

    /// Most single stream IDs to apply at once for connecting instances. One device may list a quarter of that:
    /// `Limits.unconfirmedStreamIDsMax`.
    private static let singlesOfConnectingMax = 4096

    package let bounds: AcknowledgingBounds
    /// Instances whose connection ends in this transaction; `connecting` has those whose begins.
    private var leaving: [ProjectNumber: Set<Ordinal>] = [:]
    private var connecting: [ProjectNumber: Set<Ordinal>] = [:]
    /// Single stream IDs of connecting instances so far, including those of lists that found no room.
    private var singlesOfConnecting = 0
    private var sentCounts = 0
    private var cost = 0
    private var postponedCount = 0
    private var costs: [ProjectNumber: Int] = [:]
    private var pieces: [ProjectNumber: Set<UInt64>] = [:]

    /// - Parameter commands: all commands of the transaction.
    init(_ bounds: AcknowledgingBounds, for commands: [Command]) {
        self.bounds = bounds
        for command in commands {
            switch command {
            case .acknowledge(let acknowledgements, _):
                for one in acknowledgements where one.departure != nil {
                    leaving[one.project, default: []].insert(one.ordinal)
                }
            case .connected(let project, let ordinal, _, _):
                connecting[project, default: []].insert(ordinal)
            default: break
            }
        }
    }

    /// Whether the acknowledgement is applied whole: the instance's connection ends, or it begins and there are no
    /// single stream IDs.
    package func isWhole(_ acknowledgement: Acknowledgement) -> Bool {
        let (project, ordinal) = (acknowledgement.project, acknowledgement.ordinal)
        return leaving[project]?.contains(ordinal) ?? false
            || acknowledgement.single.isEmpty && connecting[project]?.contains(ordinal) ?? false
    }

    /// Whether the single stream IDs are applied at once, because the instance connects. Once a list has found no room,
    /// no later one is taken, so an instance's acknowledgements keep their order.
    package mutating func takesSingles(of acknowledgement: Acknowledgement) -> Bool {
        guard !acknowledgement.single.isEmpty,
            connecting[acknowledgement.project]?.contains(acknowledgement.ordinal) ?? false
        else { return false }
        singlesOfConnecting += acknowledgement.single.count
        return singlesOfConnecting <= Self.singlesOfConnectingMax
    }

    /// - Returns: for how many of `count` further messages sent counts are written.
    mutating func admitSentCounts(_ count: Int) -> Int {
        let admitted = min(count, bounds.sentCountsMax - sentCounts)
        invariant(admitted >= 0, "A transaction admits no more sent counts than its bound.")
        sentCounts += admitted
        return admitted
    }

    package func hasRoom(_ project: ProjectNumber) -> Bool {
        cost < bounds.costMax && costs[project, default: 0] < bounds.costPerProjectMax
    }

    package mutating func charge(_ units: Int, _ project: ProjectNumber) {
        invariant(units >= 0, "A cost is never negative.")
        cost += units
        costs[project, default: 0] += units
    }

    package mutating func charge(counted: Int, looked: Int, _ project: ProjectNumber) {
        charge(counted + looked / Self.looksPerUnit, project)
    }

    package mutating func chargePostponed(_ project: ProjectNumber) {
        postponedCount += 1
        if postponedCount % Self.postponedPerUnit == 0 { charge(1, project) }
    }

    /// Begins a step. Each project may look at `bounds.piecesPerStep` pieces again.
    package mutating func beginStep() { pieces.removeAll(keepingCapacity: true) }

    /// Admits moving marks past the fanouts from `first` to `last`, piece by piece. Several instances share the look at
    /// a piece.
    /// - Returns: how far the marks may go in this step; nil if not past the first fanout.
    package mutating func admit(
        from first: MessageSequence, through last: MessageSequence, in project: ProjectNumber
    ) -> MessageSequence? {
        let piece = first.rawValue / bounds.messagesPerPiece
        var next = piece
        while next <= last.rawValue / bounds.messagesPerPiece {
            let known = pieces[project, default: []]
            guard known.contains(next) || known.count < bounds.piecesPerStep else { break }
            pieces[project, default: []].insert(next)
            next += 1
        }
        guard next > piece else { return nil }
        let end = (next - 1) * bounds.messagesPerPiece + (bounds.messagesPerPiece - 1)
        invariant(
            first <= last && first.rawValue <= end, "A step admits the first fanout at least.")
        return min(last, MessageSequence(end))
    }
}

extension Acknowledgement {
    /// Moves the single stream IDs into an acknowledgement of their own.
    package mutating func takeSingles() -> Acknowledgement {
        defer { single = [] }
        var singles = Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: LaneMarks(.none),
            single: single, arrival: arrival)
        singles.isHandedOver = isHandedOver
        return singles
    }

    /// What is left once the first `singleCount` single stream IDs and a part of the marks are applied.
    package func rest(behind singleCount: Int) -> Acknowledgement {
        invariant(singleCount <= single.count, "A step applies no more than was acknowledged.")
        var rest = Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: through,
            single: Array(single.dropFirst(singleCount)))
        rest.isHandedOver = isHandedOver
        return rest
    }
}
