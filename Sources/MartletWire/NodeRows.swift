// SPDX-License-Identifier: Apache-2.0
//
// The frames of a link about the log: commands of a follower, rows and their numbers, and messages that are in no row.
// Rests on `WireReader` and `WireWriter`.

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

/// NODE_ROW (0xCE): a row that the log has accepted.
package struct NodeRow: WireFrame {
    package var epoch: UInt32
    package var row: UInt64
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

    package var type: FrameType { .nodeRow }

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

/// NODE_FANOUT (0xCD): a now-or-never message for devices of followers. No row has the message.
package struct NodeFanout: WireFrame {
    /// The last row of the active node when the message was accepted. A follower first applies this row.
    package var row: UInt64
    /// The fanouts of the message's variants, as the events of a row.
    package var events: [UInt8]

    package init(row: UInt64, events: [UInt8]) {
        self.row = row
        self.events = events
    }

    package var type: FrameType { .nodeFanout }

    init(from reader: inout WireReader) throws(WireError) {
        row = try reader.u64()
        events = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(row)
        writer.raw(events)
    }
}
