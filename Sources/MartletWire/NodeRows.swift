// SPDX-License-Identifier: Apache-2.0
//
// The rows of the log on a link, commands of a follower, and their answers. Rests on `WireReader` and `WireWriter`.

/// ROW (0xC0): a row on its way into the log. The other node keeps the row, and applies it after COMMITTED.
package struct NodeRow: WireFrame {
    package var epoch: UInt32
    package var row: UInt64
    /// The digest of all rows up to this row, 16 bytes.
    package let chain: [UInt8]
    package var body: [UInt8]

    /// - Parameter chain: 16 bytes.
    package init(epoch: UInt32, row: UInt64, chain: [UInt8], body: [UInt8]) {
        precondition(chain.count == NodePosition.chainBytes, "A chain has 16 bytes.")
        self.epoch = epoch
        self.row = row
        self.chain = chain
        self.body = body
    }

    package var type: FrameType { .row }

    init(from reader: inout WireReader) throws(WireError) {
        epoch = try reader.u32()
        row = try reader.u64()
        chain = Array(try reader.raw(NodePosition.chainBytes))
        body = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(epoch)
        writer.u64(row)
        writer.raw(chain)
        writer.raw(body)
    }
}

/// COMMITTED (0xC1): the log has the row, and its standby too. The chain says which row is meant, because a refused
/// row's number is used again.
package struct NodeCommitted: WireFrame {
    package var row: UInt64
    package let chain: [UInt8]

    /// - Parameter chain: 16 bytes.
    package init(row: UInt64, chain: [UInt8]) {
        precondition(chain.count == NodePosition.chainBytes, "A chain has 16 bytes.")
        self.row = row
        self.chain = chain
    }

    package var type: FrameType { .committed }

    init(from reader: inout WireReader) throws(WireError) {
        row = try reader.u64()
        chain = Array(try reader.raw(NodePosition.chainBytes))
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(row)
        writer.raw(chain)
    }
}

/// APPLIED (0xC2): the follower's store has all rows up to this row.
package struct NodeApplied: WireFrame {
    package var row: UInt64
    /// OUTCOMEs that have come over the link. The active node forgets these answers.
    package var outcomes: UInt64

    package init(row: UInt64, outcomes: UInt64) {
        self.row = row
        self.outcomes = outcomes
    }

    package var type: FrameType { .applied }

    init(from reader: inout WireReader) throws(WireError) {
        row = try reader.u64()
        outcomes = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(row)
        writer.u64(outcomes)
    }
}

/// FORWARD (0xC3): a command for the active node. Run and number are the command's name for ever: a command forwarded
/// again has the same.
package struct NodeForward: WireFrame {
    package var run: UInt32
    package var number: UInt64
    package var command: [UInt8]

    package init(run: UInt32, number: UInt64, command: [UInt8]) {
        self.run = run
        self.number = number
        self.command = command
    }

    package var type: FrameType { .forward }

    init(from reader: inout WireReader) throws(WireError) {
        run = try reader.u32()
        number = try reader.u64()
        command = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(run)
        writer.u64(number)
        writer.raw(command)
    }
}

/// OUTCOME (0xC4): the answer to a forwarded command that made no row. The follower tells its client after it has
/// applied the rows that the answer rests on.
package struct NodeOutcome: WireFrame {
    package var run: UInt32
    package var number: UInt64
    /// The last row that the answer rests on.
    package var row: UInt64
    package var outcome: [UInt8]

    package init(run: UInt32, number: UInt64, row: UInt64, outcome: [UInt8]) {
        self.run = run
        self.number = number
        self.row = row
        self.outcome = outcome
    }

    package var type: FrameType { .outcome }

    init(from reader: inout WireReader) throws(WireError) {
        run = try reader.u32()
        number = try reader.u64()
        row = try reader.u64()
        outcome = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(run)
        writer.u64(number)
        writer.u64(row)
        writer.raw(outcome)
    }
}

/// HEAD (0xC5): a follower asks for the last committed row, and the active node answers with an equal correlation.
package struct NodeHead: WireFrame {
    package var correlation: UInt32
    /// In a question, the last row that the follower has applied; in an answer, the last committed row.
    package var row: UInt64

    package init(correlation: UInt32, row: UInt64) {
        self.correlation = correlation
        self.row = row
    }

    package var type: FrameType { .head }

    init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        row = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(row)
    }
}
