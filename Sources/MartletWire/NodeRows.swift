// SPDX-License-Identifier: Apache-2.0
//
// The frames of a link about the log: commands of a follower, and the numbers of committed rows. Rests on `WireReader`
// and `WireWriter`.

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
