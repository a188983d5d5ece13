// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: the active node's side of a link to a follower, as a state machine: frames and rows in, frames and events out.
//
//   waiting    until the follower's HELLO. Answered by the HELLO of the active node, with the last committed row.
//              Can transition to: streaming.
//   streaming  each row goes out as ROW before its fate is known, and as COMMITTED after the log has it.
//              Can transition to: leaving out, when the rows that the follower has not applied exceed a bound.
//   leaving    each row goes out as COMMITTED alone, and the follower reads the log. Can transition to: streaming, when
//   out        the follower has applied half of the bound. The gap does no harm: the follower reads up to the first
//              row that it has got.
//
// A link belongs to an epoch of the active node. Rests on ForwardIntake.

package import MartletRows
package import MartletWire

/// The active node's side of a link.
package struct ActiveLink: Sendable {
    /// Work for the owner of the link, in the order of the list.
    package enum Event: Hashable, Sendable {
        case send(NodeFrame)
        /// The follower presented itself.
        case greeted(NodeHello)
        /// A command, for the first time.
        case command(NodeForward)
        /// The follower has asked for the last committed row. The owner calls `takeAsked` after each frame and each
        /// decided row.
        case asked
        /// The follower's store has all rows up to this row.
        case applied(row: UInt64)
        case ended(NodeEnded)
        case listen(NodeListen)
        case seed(NodeSeed)
    }

    private struct SentRow {
        var row: UInt64
        var byteCount: Int
    }

    private var own: NodeHello
    private var peer: NodeHello?
    /// The last committed row.
    private var head: LogPosition
    /// The row on its way into the log.
    private var open: LogPosition?
    /// Rows sent as ROW that the follower has not applied, in turn. The last may be the open row.
    private var unapplied: [SentRow] = []
    private var unappliedBytes = 0
    private var isLeavingOut = false
    private var lastCommand: UInt64?
    /// Answers of earlier links that the follower may lack, by rising numbers; nil before the first command.
    private var former: ArraySlice<UInt64>?
    /// Numbers of the OUTCOMEs sent over the link that the follower has not counted.
    private var uncounted: [UInt64] = []
    private var countedOutcomes: UInt64 = 0
    /// The open question of the follower, by its correlation.
    private var asked: UInt32?
    private let bytesMax: Int
    private let rowsMax: Int

    /// - Parameters:
    ///   - hello: this node's HELLO. The position is filled in when the follower has presented itself.
    ///   - head: the last committed row.
    package init(
        _ hello: NodeHello, head: LogPosition, bytesMax: Int = NodeLimits.unappliedBytesMax,
        rowsMax: Int = NodeLimits.unappliedRowsMax
    ) {
        own = hello
        own.isActive = true
        self.head = head
        self.bytesMax = bytesMax
        self.rowsMax = rowsMax
    }

    /// Process of the follower; nil before HELLO.
    package var process: UInt64? { peer?.process }
    /// Whether rows go out as COMMITTED alone at present.
    package var leavesOut: Bool { isLeavingOut }
    /// Bytes of rows that the follower has not applied.
    package var unappliedByteCount: Int { unappliedBytes }

    // MARK: Rows

    /// A row goes to the log. Called once before each attempt with a new body.
    /// - Returns: the frame for the follower; nil: none.
    package mutating func append(_ row: ReplicatedRow) -> NodeFrame? {
        dropOpen()
        open = row.position
        guard peer != nil else { return nil }
        if isLeavingOut, unappliedBytes <= bytesMax / 2, unapplied.count <= rowsMax / 2 {
            isLeavingOut = false
        }
        if unappliedBytes + row.body.count > bytesMax || unapplied.count >= rowsMax {
            isLeavingOut = true
        }
        guard !isLeavingOut else { return nil }
        unapplied.append(SentRow(row: row.position.row, byteCount: row.body.count))
        unappliedBytes += row.body.count
        return .row(
            NodeRow(
                epoch: row.position.epoch, row: row.position.row, chain: row.position.chain,
                body: row.body))
    }

    /// The log has the row.
    /// - Returns: the frame for the follower; nil: none.
    package mutating func committed(_ position: LogPosition) -> NodeFrame? {
        head = position
        open = nil
        guard peer != nil else { return nil }
        return .committed(NodeCommitted(row: position.row, chain: position.chain))
    }

    /// The log has refused the row for certain. The row never counts as applied.
    package mutating func refused() { dropOpen() }

    private mutating func dropOpen() {
        guard open != nil else { return }
        open = nil
        guard let last = unapplied.last, last.row > head.row else { return }
        unapplied.removeLast()
        unappliedBytes -= last.byteCount
    }

    // MARK: Frames

    /// - Parameter intake: the commands of all followers.
    package mutating func receive(
        _ frame: NodeFrame, _ intake: inout ForwardIntake
    ) throws(LinkFault) -> [Event] {
        if case .hello(let hello) = frame {
            guard peer == nil else { throw .unexpected(.hello) }
            return try greet(hello)
        }
        guard let peer else { throw .unexpected(frame.type) }
        switch frame {
        case .ping(let ping): return [.send(.pong(Pong(value: ping.value)))]
        case .pong: return []
        case .applied(let applied):
            guard applied.row <= head.row || applied.row == open?.row else {
                throw .ahead(row: applied.row)
            }
            let left = unapplied.drop { $0.row <= applied.row }
            unappliedBytes = left.reduce(0) { $0 + $1.byteCount }
            unapplied = Array(left)
            try count(applied.outcomes, of: peer.process, &intake)
            return [.applied(row: applied.row)]
        case .forward(let forward):
            if let lastCommand, forward.number <= lastCommand {
                throw .commandOutOfTurn(number: forward.number, after: lastCommand)
            }
            lastCommand = forward.number
            forgetFormer(before: forward.number, of: peer.process, &intake)
            switch try intake.take(forward, of: peer.process) {
            case .first: return [.command(forward)]
            case .again(let outcome?):
                uncounted.append(outcome.number)
                return [.send(.outcome(outcome))]
            case .again(nil): return []
            }
        case .head(let question):
            // One question at a time is open on a link.
            guard asked == nil else { throw .tooMuch }
            asked = question.correlation
            return [.asked]
        case .ended(let ended):
            guard ended.entries.count <= NodeLimits.endedEntriesMax else { throw .tooMuch }
            return [.ended(ended)]
        case .listen(let listen): return [.listen(listen)]
        case .seed(let seed): return [.seed(seed)]
        case .hello, .error, .row, .committed, .outcome, .upstream, .figures, .watch,
            .watched:
            throw .unexpected(frame.type)
        }
    }

    /// The follower has got so many OUTCOMEs over the link.
    private mutating func count(
        _ outcomes: UInt64, of process: UInt64, _ intake: inout ForwardIntake
    ) throws(LinkFault) {
        guard outcomes >= countedOutcomes,
            outcomes - countedOutcomes <= UInt64(uncounted.count)
        else { throw .uncounted(outcomes: outcomes) }
        let count = Int(outcomes - countedOutcomes)
        for number in uncounted.prefix(count) { intake.forget(number, of: process) }
        uncounted.removeFirst(count)
        countedOutcomes = outcomes
    }

    /// A follower forwards all unanswered commands over a new link, in the order of their numbers. So the follower has
    /// the answers of the numbers between them.
    private mutating func forgetFormer(
        before number: UInt64, of process: UInt64, _ intake: inout ForwardIntake
    ) {
        var former = former ?? intake.kept(of: process)[...]
        while let first = former.first, first <= number {
            if first < number { intake.forget(first, of: process) }
            former.removeFirst()
        }
        self.former = former
    }

    private mutating func greet(_ hello: NodeHello) throws(LinkFault) -> [Event] {
        own.position = head.ofHello
        try hello.check(own)
        guard !hello.isActive else { throw .unexpected(.hello) }
        guard hello.position.row <= head.row else { throw .ahead(row: hello.position.row) }
        peer = hello
        return [.greeted(hello), .send(.hello(own))]
    }

    /// The answer to a command that made no row; nil before HELLO: `ForwardIntake` keeps the answer until the follower
    /// forwards the command again.
    package mutating func outcome(_ outcome: NodeOutcome) -> NodeFrame? {
        guard peer != nil else { return nil }
        uncounted.append(outcome.number)
        return .outcome(outcome)
    }

    /// Answers the follower's question for the last committed row. While a row is on its way into the log, there is no
    /// answer: another node may have read the row from the log, and may have told its clients. Called while the lease
    /// is valid.
    package mutating func takeAsked() -> NodeFrame? {
        guard open == nil, let correlation = asked.take() else { return nil }
        return .head(NodeHead(correlation: correlation, row: head.row))
    }
}
