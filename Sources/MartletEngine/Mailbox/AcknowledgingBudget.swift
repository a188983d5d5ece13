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

/// Bounds on the acknowledgements of a transaction. Costs are in units of about three microseconds: an
/// acknowledgement, or a message counted for an acknowledgement.
package struct AcknowledgingBounds: Sendable {
    /// Units of all projects.
    package var costMax: Int
    /// Units of a project.
    package var costPerProjectMax: Int
    /// Bounds on an instance's inbox rows and single stream IDs in a step.
    package var inboxRowsPerStep = 256
    package var singlesPerStep = 256
    /// Bounds on a step's look at a project's log: pieces, and messages in a piece.
    package var piecesPerStep: Int
    package var messagesPerPiece: UInt64 = 256
    /// Messages with sent counts in a transaction.
    package var sentCountsMax = 1024

    package init(costMax: Int, costPerProjectMax: Int, piecesPerStep: Int) {
        self.costMax = costMax
        self.costPerProjectMax = costPerProjectMax
        self.piecesPerStep = piecesPerStep
    }

    /// FAN-4: bounds for a project without other projects beside it.
    package static let alone = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 2048, piecesPerStep: 4)
    /// Bounds while several projects wait for the transaction.
    package static let shared = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 256, piecesPerStep: 1)
}

/// The cost of a transaction's acknowledgements so far, against the bounds.
package struct AcknowledgingBudget {
    /// Units for the removal of an inbox row.
    package static let costPerInboxRow = 2
    /// Fanouts per unit that were looked at, but not addressed to the instance.
    private static let looksPerUnit = 32
    /// Instances per unit that were postponed to another step.
    private static let postponedPerUnit = 16

    /// Single stream IDs applied at once for connecting instances. The bound is needed because a device may list
    /// many: `Limits.unconfirmedStreamIDsMax`, a quarter of the bound.
    private static let singlesOfConnectingMax = 4096

    package let bounds: AcknowledgingBounds
    /// Instances with an ending connection in the transaction; `connecting` has instances with a beginning
    /// connection.
    private var leaving: [ProjectNumber: Set<Ordinal>] = [:]
    private var connecting: [ProjectNumber: Set<Ordinal>] = [:]
    /// Single stream IDs of connecting instances so far, including the IDs of lists without room.
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

    /// Whether the transaction applies the acknowledgement whole: the instance's connection ends, or begins and the
    /// acknowledgement has no single stream IDs.
    package func isWhole(_ acknowledgement: Acknowledgement) -> Bool {
        let (project, ordinal) = (acknowledgement.project, acknowledgement.ordinal)
        return leaving[project]?.contains(ordinal) ?? false
            || acknowledgement.single.isEmpty && connecting[project]?.contains(ordinal) ?? false
    }

    /// Whether the acknowledgement's single stream IDs are applied at once, because the instance connects. After a
    /// list without room no later list is taken, so that the acknowledgements of an instance keep their order.
    package mutating func takesSingles(of acknowledgement: Acknowledgement) -> Bool {
        guard !acknowledgement.single.isEmpty,
            connecting[acknowledgement.project]?.contains(acknowledgement.ordinal) ?? false
        else { return false }
        singlesOfConnecting += acknowledgement.single.count
        return singlesOfConnecting <= Self.singlesOfConnectingMax
    }

    /// - Returns: how many of `count` further messages get sent counts in the transaction.
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

    /// Admits the movement of marks past the fanouts from `first` to `last`, piece by piece. Several instances share
    /// the look at a piece.
    /// - Returns: the highest sequence for the marks in the present step; nil if not past the first fanout.
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
    /// Moves the single stream IDs into a separate acknowledgement.
    package mutating func takeSingles() -> Acknowledgement {
        defer { single = [] }
        var singles = Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: LaneMarks(.none),
            single: single, arrival: arrival)
        singles.isHandedOver = isHandedOver
        return singles
    }

    /// The rest of the acknowledgement, after the first `singleCount` single stream IDs and a part of the marks were
    /// applied.
    package func rest(behind singleCount: Int) -> Acknowledgement {
        invariant(singleCount <= single.count, "A step applies no more than was acknowledged.")
        var rest = Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: through,
            single: Array(single.dropFirst(singleCount)))
        rest.isHandedOver = isHandedOver
        return rest
    }
}
