// SPDX-License-Identifier: Apache-2.0
//
// The parts of the world: nodes, links with frames on their way, bodies of rows, and faults made on purpose.

import MartletCluster
import MartletRows
import MartletWire

/// A fault that the world makes on purpose, to show that a check notices it.
enum Breakage: CaseIterable {
    /// The active node applies a command each time it comes.
    case everyCopyIsFirst
    /// A follower applies a row before COMMITTED.
    case earlyRows
    /// A follower forwards before it has the rows that may answer its commands.
    case earlyForwarding
    /// A follower answers from an OUTCOME without its rows.
    case earlyAnswers
    /// A follower answers questions from its own store.
    case ownHead
    /// The active node forgets the answers that a lost link may have swallowed.
    case forgottenOutcomes
    /// The active node sends rows beyond the bounds.
    case endlessRows

    /// The check that notices the fault.
    var finding: String {
        switch self {
        case .everyCopyIsFirst, .earlyForwarding: "is applied twice"
        case .earlyRows: "applies a row that the log does not have"
        case .earlyAnswers: "an answer came before its rows"
        case .ownHead: "a question was answered from behind"
        case .forgottenOutcomes: "not quiet"
        case .endlessRows: "follower: \(LinkFault.tooMuch)"
        }
    }
}

/// A command's name.
struct Name: Hashable {
    var process: UInt64
    var number: UInt64
}

/// The body of a row: the names of the commands that it applies, and filling.
struct Body {
    var names: [Name]
    var filling: Int

    var bytes: [UInt8] {
        var writer = WireWriter()
        writer.list(names) { (writer, name) in
            writer.u64(name.process)
            writer.u64(name.number)
        }
        return writer.bytes + [UInt8](repeating: 7, count: filling)
    }

    init(names: [Name], filling: Int) {
        self.names = names
        self.filling = filling
    }

    init(_ bytes: [UInt8]) {
        func number(_ at: Int, _ count: Int) -> UInt64 {
            (0..<count).reduce(0) { $0 | UInt64(bytes[at + $1]) << (8 * UInt64($1)) }
        }
        names = (0..<Int(number(0, 2))).map {
            Name(process: number(2 + $0 * 16, 8), number: number(10 + $0 * 16, 8))
        }
        filling = bytes.count - 2 - names.count * 16
    }
}

/// The two directions of a link, as frames on their way.
final class Wire {
    let follower: Int
    let active: Int
    var toActive: [[UInt8]] = []
    var toFollower: [[UInt8]] = []
    /// Whether an end has given the link up. Frames on the way to the other end may still arrive.
    var followerLeft = false
    var activeLeft = false
    var link: ActiveLink

    init(follower: Int, active: Int, link: ActiveLink) {
        self.follower = follower
        self.active = active
        self.link = link
    }
}

/// A node.
final class Node {
    let index: Int
    let process: UInt64
    var run: UInt32 { UInt32(index) + 1 }
    /// The store: all rows applied.
    var rows: [ReplicatedRow] = []
    var position: LogPosition
    var book: ForwardBook<Int>
    var questions = ReadIndex<Int>()
    var link: FollowerLink?
    var wire: Wire?
    /// Whether new commands go out at once.
    var isForwarding = false

    // The active node's state.
    var epoch: UInt32?
    var hasLease = false
    var intake = ForwardIntake(forwardedMax: LinkWorld.forwardedMax)
    var queue: [Name] = []
    /// The row on its way into the log, with the commands that made no row beside it.
    var open: (row: ReplicatedRow, batch: [Name], refused: [Name])?
    /// Whether the log has the open row. The node has not heard of it yet.
    var isAccepted = false

    init(index: Int, beginning: LogPosition) {
        self.index = index
        process = UInt64(index) + 1000
        position = beginning
        book = ForwardBook(countMax: LinkWorld.forwardedMax)
    }
}
