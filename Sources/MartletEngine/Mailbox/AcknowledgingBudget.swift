// SPDX-License-Identifier: Apache-2.0
//
// How much of what devices have taken one transaction works through. Everybody's commits wait for it, and
// one device that comes back to a hundred thousand messages acknowledges as many: so each project has a
// bounded part, in steps that are bounded too, and what is over comes in the next transaction. An
// acknowledgement that is applied up to some message only is as good as one that was sent there. What
// belongs to a connection that ended is there with its end, and what a device named when it connected is
// there with its beginning: its mailbox is read behind that. Rests on Command.

package import MartletBase

/// What bounds the acknowledgements of one transaction. Costs are in units of about three microseconds:
/// an acknowledgement, or a message that it is counted for.
public struct AcknowledgingBounds: Sendable {
    package var costMax: Int
    package var costPerProjectMax: Int
    /// Of one instance, in one step.
    package var inboxRowsPerStep = 256
    package var singlesPerStep = 256
    /// Pieces of a project's log that are looked at in one step, and the messages of one.
    package var piecesPerStep: Int
    package var messagesPerPiece: UInt64 = 256
    /// Messages of which loops tell how often they were sent.
    package var sentCountsMax = 1024

    package init(costMax: Int, costPerProjectMax: Int, piecesPerStep: Int) {
        self.costMax = costMax
        self.costPerProjectMax = costPerProjectMax
        self.piecesPerStep = piecesPerStep
    }

    /// FAN-4: a project that has the broker to itself.
    public static let alone = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 2048, piecesPerStep: 4)
    /// Others wait for the transaction.
    public static let shared = AcknowledgingBounds(
        costMax: 4096, costPerProjectMax: 256, piecesPerStep: 1)
}

/// What the acknowledgements of a transaction have cost so far, and what they may.
public struct AcknowledgingBudget {
    /// What a row of the inbox costs that goes.
    package static let costPerInboxRow = 2
    /// Fanouts that are looked at and are none of the instance's, for one unit.
    private static let looksPerUnit = 32
    /// Instances that have to wait for another step, for one unit.
    private static let postponedPerUnit = 16

    /// Single ones of instances that connect, which are applied at once: a device names as many as it
    /// likes.
    private static let singlesOfConnectingMax = 4096

    package let bounds: AcknowledgingBounds
    /// Instances whose connections end in the transaction, and those whose begin.
    private var leaving: [ProjectNumber: Set<Ordinal>] = [:]
    private var connecting: [ProjectNumber: Set<Ordinal>] = [:]
    private var singlesOfConnecting = 0
    private var sentCounts = 0
    private var cost = 0
    private var postponedCount = 0
    private var costs: [ProjectNumber: Int] = [:]
    private var pieces: [ProjectNumber: Set<UInt64>] = [:]

    /// - Parameter commands: all of the transaction's.
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

    /// Whether everything that an instance has acknowledged is applied in this transaction.
    package func isWhole(_ acknowledgement: Acknowledgement) -> Bool {
        let (project, ordinal) = (acknowledgement.project, acknowledgement.ordinal)
        return leaving[project]?.contains(ordinal) ?? false
            || acknowledgement.single.isEmpty && connecting[project]?.contains(ordinal) ?? false
    }

    /// Whether an instance's single ones are applied at once, whatever else waits.
    package mutating func takesSingles(of acknowledgement: Acknowledgement) -> Bool {
        guard !acknowledgement.single.isEmpty,
            connecting[acknowledgement.project]?.contains(acknowledgement.ordinal) ?? false,
            singlesOfConnecting < Self.singlesOfConnectingMax
        else { return false }
        singlesOfConnecting += acknowledgement.single.count
        return true
    }

    /// - Returns: of how many more messages it may be told how often they were sent.
    mutating func admitSentCounts(_ count: Int) -> Int {
        let admitted = min(count, bounds.sentCountsMax - sentCounts)
        sentCounts += admitted
        return admitted
    }

    package func hasRoom(_ project: ProjectNumber) -> Bool {
        cost < bounds.costMax && costs[project, default: 0] < bounds.costPerProjectMax
    }

    package mutating func charge(_ units: Int, _ project: ProjectNumber) {
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

    package mutating func beginStep() { pieces.removeAll(keepingCapacity: true) }

    /// Marks are to move past fanouts, the first and the last of which are these or lie outside of them.
    /// - Returns: up to where they may in this step; nil: not even past the first.
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
        return min(last, MessageSequence(end))
    }
}

extension Acknowledgement {
    /// Its single stream IDs, which are none of its any more.
    package mutating func takeSingles() -> Acknowledgement {
        defer { single = [] }
        return Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: LaneMarks(.none),
            single: single, arrival: arrival)
    }

    /// What is left of it when its marks have been raised in part only, and its first single stream IDs
    /// were seen to.
    package func rest(behind singleCount: Int) -> Acknowledgement {
        Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: through,
            single: Array(single.dropFirst(singleCount)))
    }
}
