// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: a follower's side of a link to the active node, as a state machine: frames in, frames, rows and events out.
//
//   greeting   until the active node's HELLO. Can transition to: catching up.
//   catching   the store lacks rows that the active node had at HELLO. Rows of the link wait, and the follower reads
//   up         the log up to them. No command goes out: its outcome may be in one of these rows. Can transition to:
//              forwarding.
//   forwarding all unanswered commands have gone out again, and new ones go out at once.
//
// A row of the link is applied after its COMMITTED. Where COMMITTED comes without a row, the follower reads the log. A
// row is applied only on the chain of its predecessor, be the predecessor of the link or of the log. Rests on
// ReplicatedRow.

package import MartletRows
package import MartletWire

/// A follower's side of a link.
package struct FollowerLink: Sendable {
    /// Work for the owner of the link, in the order of the list.
    package enum Event: Hashable, Sendable {
        case send(NodeFrame)
        /// The active node presented itself.
        case greeted(NodeHello)
        /// `step` has work.
        case rows
        case outcome(NodeOutcome)
        case head(NodeHead)
        case upstream(NodeUpstream)
        case seed(NodeSeed)
    }

    /// The next work on the store.
    package enum Step: Hashable, Sendable {
        case wait
        /// Apply the rows in one transaction, then call `applied`.
        case apply([ReplicatedRow])
        /// Read the log up to the row, apply the rows, then call `applied`.
        case readLog(through: UInt64)
    }

    private let own: NodeHello
    private var active: NodeHello?
    /// The last row in the store.
    private var position: LogPosition
    /// The last committed row that the active node has told.
    private var committed: (row: UInt64, chain: [UInt8])
    /// A row on its way into the log.
    private var open: ReplicatedRow?
    /// Committed rows that are not applied, with rising numbers.
    private var ready: [ReplicatedRow] = []
    private var bytes = 0
    /// OUTCOMEs that have come.
    private var outcomes: UInt64 = 0
    private var reported: (row: UInt64, outcomes: UInt64)?
    private let bytesMax: Int
    private let rowsMax: Int

    /// - Parameters:
    ///   - hello: this node's HELLO, with the place of its store.
    ///   - position: the place of the store.
    package init(
        _ hello: NodeHello, position: LogPosition, bytesMax: Int = NodeLimits.unappliedBytesMax,
        rowsMax: Int = NodeLimits.unappliedRowsMax
    ) {
        var own = hello
        own.position = position.ofHello
        own.isActive = false
        self.own = own
        self.position = position
        committed = (position.row, position.chain)
        self.bytesMax = bytesMax
        self.rowsMax = rowsMax
    }

    /// The first frame of the link.
    package var hello: NodeFrame { .hello(own) }
    /// Whether commands go out. Becomes true by `beginForwarding`.
    package private(set) var isForwarding = false
    /// Bytes of rows that are not applied.
    package var unappliedByteCount: Int { bytes }

    /// Begins forwarding, if the store has all rows that the active node had at HELLO.
    /// - Returns: true once. The owner then forwards all unanswered commands, and after them new ones as they come.
    package mutating func beginForwarding() -> Bool {
        guard !isForwarding, let active, position.row >= active.position.row else { return false }
        isForwarding = true
        return true
    }

    // MARK: Frames

    package mutating func receive(_ frame: NodeFrame) throws(LinkFault) -> [Event] {
        if case .hello(let hello) = frame {
            guard active == nil else { throw .unexpected(.hello) }
            try hello.check(own)
            guard hello.isActive else { throw .notActive }
            guard hello.position.row >= own.position.row,
                hello.position.epoch >= own.position.epoch
            else { throw .notActive }
            guard position.epoch <= hello.position.epoch else {
                throw .superseded(epoch: position.epoch)
            }
            active = hello
            committed = (hello.position.row, hello.position.chain)
            try checkCommitted()
            return [.greeted(hello), .rows]
        }
        guard let active else { throw .unexpected(frame.type) }
        switch frame {
        case .ping(let ping): return [.send(.pong(Pong(value: ping.value)))]
        case .pong: return []
        case .row(let row):
            try take(row, of: active)
            return []
        case .committed(let row):
            try commit(row)
            return [.rows]
        case .outcome(let outcome):
            outcomes += 1
            return [.outcome(outcome)]
        case .head(let head): return [.head(head)]
        case .upstream(let upstream): return [.upstream(upstream)]
        case .seed(let seed): return [.seed(seed)]
        case .hello, .error, .applied, .forward, .ended, .listen, .figures, .watch,
            .watched:
            throw .unexpected(frame.type)
        }
    }

    private mutating func take(_ row: NodeRow, of active: NodeHello) throws(LinkFault) {
        guard row.row == committed.row + 1 else {
            throw .outOfTurn(row: row.row, expected: committed.row + 1)
        }
        guard row.epoch == active.position.epoch else { throw .superseded(epoch: row.epoch) }
        // The log has refused an earlier row with this number.
        if let open { bytes -= open.body.count }
        open = nil
        guard bytes + row.body.count <= bytesMax, ready.count < rowsMax else { throw .tooMuch }
        var place = position
        (place.epoch, place.row, place.chain) = (row.epoch, row.row, row.chain)
        open = ReplicatedRow(read: place, body: row.body)
        bytes += row.body.count
    }

    private mutating func commit(_ row: NodeCommitted) throws(LinkFault) {
        guard row.row == committed.row + 1 else {
            throw .outOfTurn(row: row.row, expected: committed.row + 1)
        }
        committed = (row.row, row.chain)
        if let open {
            self.open = nil
            // Another chain: the log has refused the row, and the row in its place was left out.
            if open.position.chain == row.chain, open.position.row > position.row {
                ready.append(open)
            } else {
                bytes -= open.body.count
            }
        }
        try checkCommitted()
    }

    // MARK: Rows

    /// The next work on the store.
    /// - Parameters:
    ///   - rowsMax: rows of one transaction.
    ///   - bytesMax: bytes of their bodies; the first row comes in any case.
    package func step(rowsMax: Int, bytesMax: Int) throws(LinkFault) -> Step {
        guard let first = ready.first else {
            return committed.row > position.row ? .readLog(through: committed.row) : .wait
        }
        guard first.position.row == position.row + 1 else {
            return .readLog(through: first.position.row - 1)
        }
        var rows: [ReplicatedRow] = []
        var last = position
        var byteCount = 0
        for row in ready.prefix(rowsMax) {
            guard row.position.row == last.row + 1 else { break }
            guard row.follows(last) else { throw .diverged(row: row.position.row) }
            byteCount += row.body.count
            if byteCount > bytesMax, !rows.isEmpty { break }
            rows.append(row)
            last = row.position
        }
        return .apply(rows)
    }

    /// The store has all rows up to a place, whether they came over the link or from the log.
    package mutating func applied(_ position: LogPosition) throws(LinkFault) {
        if let active, position.epoch > active.position.epoch {
            throw .superseded(epoch: position.epoch)
        }
        guard position.incarnation == own.position.incarnation else { throw .foreign }
        self.position = position
        let done = ready.prefix { $0.position.row <= position.row }
        if let last = done.last, last.position.row == position.row, last.position != position {
            throw .diverged(row: position.row)
        }
        bytes -= done.reduce(0) { $0 + $1.body.count }
        ready.removeFirst(done.count)
        try checkCommitted()
    }

    /// A store at the last committed row has its chain.
    private func checkCommitted() throws(LinkFault) {
        guard position.row != committed.row || position.chain == committed.chain else {
            throw .diverged(row: position.row)
        }
    }

    /// The report of applied rows and of OUTCOMEs that have come; nil: nothing has changed since the last report. The
    /// owner calls after `NodeLimits.reportMilliseconds`, and earlier as it likes.
    package mutating func report() -> NodeFrame? {
        guard active != nil else { return nil }
        if let reported, reported == (position.row, outcomes) { return nil }
        reported = (position.row, outcomes)
        return .applied(NodeApplied(row: position.row, outcomes: outcomes))
    }
}
