// SPDX-License-Identifier: Apache-2.0
//
// How much of what devices have taken one transaction works through. Everybody's commits wait for it, and
// one device that comes back to a hundred thousand messages acknowledges as many: so each project has a
// bounded part, in steps that are bounded too, and what is over comes in the next transaction. An
// acknowledgement that is applied up to some message only is as good as one that was sent there.
// Rests on MartletEngine.

import MartletBase
import MartletEngine

/// What the acknowledgements of a command have cost so far, and what they may in this step.
struct AcknowledgingBudget {
    /// In units of about three microseconds: an acknowledgement, or a message that it is counted for.
    private static let costMax = 4096
    private static let costPerProjectMax = 2048
    /// Where others wait for the transaction.
    private static let costPerProjectSharedMax = 256
    /// What a row of the inbox costs that goes.
    static let costPerInboxRow = 2
    /// Fanouts that are looked at and are none of the instance's, for one unit.
    private static let looksPerUnit = 32
    /// Of one instance, in one step.
    static let inboxRowsPerStep = 256
    static let singlesPerStep = 256
    /// Instances that have to wait for another step, for one unit.
    private static let postponedPerUnit = 16
    /// Pieces of a project's log that are looked at in one step, and the messages of one.
    private static let piecesPerStep = 4
    private static let piecesPerSharedStep = 1
    static let messagesPerPiece: UInt64 = 256

    private let perProjectMax: Int
    private let piecesMax: Int
    private var cost = 0
    private var postponedCount = 0
    private var costs: [ProjectNumber: Int] = [:]
    private var pieces: [ProjectNumber: Set<UInt64>] = [:]

    init(isShared: Bool) {
        perProjectMax = isShared ? Self.costPerProjectSharedMax : Self.costPerProjectMax
        piecesMax = isShared ? Self.piecesPerSharedStep : Self.piecesPerStep
    }

    func hasRoom(_ project: ProjectNumber) -> Bool {
        cost < Self.costMax && costs[project, default: 0] < perProjectMax
    }

    mutating func charge(_ units: Int, _ project: ProjectNumber) {
        cost += units
        costs[project, default: 0] += units
    }

    mutating func charge(counted: Int, looked: Int, _ project: ProjectNumber) {
        charge(counted + looked / Self.looksPerUnit, project)
    }

    mutating func chargePostponed(_ project: ProjectNumber) {
        postponedCount += 1
        if postponedCount % Self.postponedPerUnit == 0 { charge(1, project) }
    }

    mutating func beginStep() { pieces.removeAll(keepingCapacity: true) }

    /// Marks are to move past fanouts, the first and the last of which are these or lie outside of them.
    /// - Returns: up to where they may in this step; nil: not even past the first.
    mutating func admit(
        from first: MessageSequence, through last: MessageSequence, in project: ProjectNumber
    ) -> MessageSequence? {
        let piece = first.rawValue / Self.messagesPerPiece
        var next = piece
        while next <= last.rawValue / Self.messagesPerPiece {
            let known = pieces[project, default: []]
            guard known.contains(next) || known.count < piecesMax else { break }
            pieces[project, default: []].insert(next)
            next += 1
        }
        guard next > piece else { return nil }
        let end = (next - 1) * Self.messagesPerPiece + (Self.messagesPerPiece - 1)
        return min(last, MessageSequence(end))
    }
}

extension Acknowledgement {
    /// What is left of it when its marks have been raised in part only, and its first single stream IDs
    /// were seen to.
    func rest(behind singleCount: Int) -> Acknowledgement {
        Acknowledgement(
            project: project, ordinal: ordinal, holder: holder, through: through,
            single: Array(single.dropFirst(singleCount)))
    }
}
