// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: the faults of a link between two nodes. After a fault the link closes, and a new link begins anew: commands
// and rows lose nothing by it. Two faults need more than a new link: `isAlarm`. Rests on MartletWire.

package import MartletRows
package import MartletWire

package enum LinkFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The frame does not belong to this side of a link, or comes before HELLO or as a second HELLO.
    case unexpected(FrameType)
    /// The other node belongs to another cluster, or to a history of the log before a new beginning.
    case foreign
    /// The formats of rows or commands of the two nodes have none in common.
    case formats
    /// The other node is not active.
    case notActive
    /// The follower has rows that this node does not have: this node is not active any more.
    case ahead(row: UInt64)
    /// Another row than the next was told.
    case outOfTurn(row: UInt64, expected: UInt64)
    /// A row, a commitment or a store is of another history.
    case diverged(row: UInt64)
    /// The log has rows of a later epoch: another node is active.
    case superseded(epoch: UInt32)
    /// The other node does not keep to the bounds of `NodeLimits`.
    case tooMuch
    /// The numbers of commands on a link do not rise.
    case commandOutOfTurn(number: UInt64, after: UInt64)
    /// The follower counts OUTCOMEs that were not sent.
    case uncounted(outcomes: UInt64)
    /// An answer to another question than the one that is open.
    case answerOutOfTurn(correlation: UInt32)

    /// Whether the store of a node may have another history: an operator is to look, and the store is to be seeded.
    package var isAlarm: Bool {
        switch self {
        case .foreign, .diverged: true
        case .unexpected, .formats, .notActive, .ahead, .outOfTurn, .superseded, .tooMuch,
            .commandOutOfTurn, .uncounted, .answerOutOfTurn:
            false
        }
    }

    package var description: String {
        switch self {
        case .unexpected(let type): "a frame \(type) is out of place on the link"
        case .foreign: "the other node belongs to another cluster; seed its store or this one"
        case .formats:
            "the nodes have no format of rows and commands in common; upgrade the older node"
        case .notActive: "the other node is not active"
        case .ahead(let row): "the other node has row \(row), which this node lacks"
        case .outOfTurn(let row, let expected): "row \(row) came instead of row \(expected)"
        case .diverged(let row):
            "row \(row) is of another history; compare the nodes with martlet cluster verify"
        case .superseded(let epoch): "another node is active since epoch \(epoch)"
        case .tooMuch: "the other node sends more than the bounds of a link allow"
        case .commandOutOfTurn(let number, let after):
            "command \(number) came after command \(after)"
        case .uncounted(let outcomes): "the other node counts \(outcomes) outcomes, too many"
        case .answerOutOfTurn(let correlation): "nobody asked for the answer \(correlation)"
        }
    }
}

extension LogPosition {
    /// The place as HELLO tells it.
    package var ofHello: NodePosition {
        NodePosition(incarnation: incarnation, epoch: epoch, row: row, chain: chain)
    }
}

extension NodeHello {
    /// Checks the HELLO of another node.
    /// - Parameter own: the place of this node's store.
    func check(_ own: NodeHello) throws(LinkFault) {
        guard position.incarnation == own.position.incarnation else { throw .foreign }
        guard rowFormats.overlaps(own.rowFormats), commandFormats.overlaps(own.commandFormats)
        else { throw .formats }
        guard position.row != own.position.row || position == own.position else {
            throw .diverged(row: position.row)
        }
    }
}
