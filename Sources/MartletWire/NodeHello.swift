// SPDX-License-Identifier: Apache-2.0
//
// HELLO between nodes: each side of a link begins with one. Role 6 has a port of its own, so the codec of clients does
// not know the role, and the port of clients refuses it. Rests on `WireReader` and `WireWriter`.

/// The place of a node in the log of its cluster.
package struct NodePosition: Sendable, Hashable {
    package static let incarnationBytes = 16
    package static let chainBytes = 16

    /// The random name of the log's history.
    package let incarnation: [UInt8]
    /// The takeover after which the row was written.
    package let epoch: UInt32
    /// Number of the row; 0: before the first row.
    package let row: UInt64
    /// The digest of all rows up to the row.
    package let chain: [UInt8]

    /// - Parameters:
    ///   - incarnation: 16 bytes.
    ///   - chain: 16 bytes.
    package init(incarnation: [UInt8], epoch: UInt32, row: UInt64, chain: [UInt8]) {
        precondition(
            incarnation.count == Self.incarnationBytes && chain.count == Self.chainBytes,
            "Incarnation and chain have 16 bytes each.")
        self.incarnation = incarnation
        self.epoch = epoch
        self.row = row
        self.chain = chain
    }

    init(from reader: inout WireReader) throws(WireError) {
        incarnation = Array(try reader.raw(Self.incarnationBytes))
        epoch = try reader.u32()
        row = try reader.u64()
        chain = Array(try reader.raw(Self.chainBytes))
    }

    func encode(into writer: inout WireWriter) {
        writer.raw(incarnation)
        writer.u32(epoch)
        writer.u64(row)
        writer.raw(chain)
    }
}

/// HELLO (0x01) of role 6: a node presents itself to another node.
package struct NodeHello: WireFrame {
    /// The role of nodes. `ConnectionRole` has the roles of clients.
    package static let role: UInt8 = 6

    /// The place of the node's store.
    package var position: NodePosition
    /// Name of the node.
    package var node: String
    /// HOST:PORT of the node for other nodes.
    package var address: String
    /// Random number of the node's process.
    package var process: UInt64
    /// Run of the node's process; 0: the process has no run yet.
    package var run: UInt32
    /// The run that the active node has given the other side's process; 0 from other nodes.
    package var peerRun: UInt32
    /// Whether the node is active.
    package var isActive: Bool
    /// Formats of rows for reading and writing.
    package var rowFormats: ClosedRange<UInt16>
    /// Formats of the link for reading: forwarded commands, outcomes, reports and events.
    package var commandFormats: ClosedRange<UInt8>

    package init(
        position: NodePosition, node: String, address: String, process: UInt64, run: UInt32,
        peerRun: UInt32 = 0, isActive: Bool = false, rowFormats: ClosedRange<UInt16>,
        commandFormats: ClosedRange<UInt8>
    ) {
        self.position = position
        self.node = node
        self.address = address
        self.process = process
        self.run = run
        self.peerRun = peerRun
        self.isActive = isActive
        self.rowFormats = rowFormats
        self.commandFormats = commandFormats
    }

    package var type: FrameType { .hello }

    init(from reader: inout WireReader) throws(WireError) {
        let magic = try reader.u32()
        guard magic == WireVersion.magic else { throw .wrongMagic(magic) }
        try reader.version()
        let role = try reader.u8()
        guard role == Self.role else { throw .unknownValue(field: "role", value: UInt64(role)) }
        position = try NodePosition(from: &reader)
        node = try reader.string()
        address = try reader.string()
        process = try reader.u64()
        run = try reader.u32()
        peerRun = try reader.u32()
        isActive = try reader.flag("active")
        let (lowestRow, highestRow) = (try reader.u16(), try reader.u16())
        guard lowestRow <= highestRow else {
            throw .unknownValue(field: "row formats", value: UInt64(highestRow))
        }
        rowFormats = lowestRow...highestRow
        let (lowestCommand, highestCommand) = (try reader.u8(), try reader.u8())
        guard lowestCommand <= highestCommand else {
            throw .unknownValue(field: "command formats", value: UInt64(highestCommand))
        }
        commandFormats = lowestCommand...highestCommand
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(WireVersion.magic)
        writer.u8(WireVersion.current)
        writer.u8(Self.role)
        position.encode(into: &writer)
        writer.string(node)
        writer.string(address)
        writer.u64(process)
        writer.u32(run)
        writer.u32(peerRun)
        writer.flag(isActive)
        writer.u16(rowFormats.lowerBound)
        writer.u16(rowFormats.upperBound)
        writer.u8(commandFormats.lowerBound)
        writer.u8(commandFormats.upperBound)
    }
}
