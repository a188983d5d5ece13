// SPDX-License-Identifier: Apache-2.0
//
// The other frames of a link: the progress of fanouts, and messages of devices for listeners of other nodes. Rests on `WireReader` and `WireWriter`.

package import MartletBase

/// ENDED (0xC6): the progress of fanouts on a follower since its last report. A fanout is over when all nodes have
/// ended their parts.
package struct NodeEnded: WireFrame {
    package struct Entry: Sendable, Hashable {
        package var project: ProjectNumber
        /// The number in the message ID.
        package var messageNumber: UInt64
        /// Deliveries since the last report.
        package var delivered: UInt64
        /// Blocks of recipients walked since the last report.
        package var blocks: UInt32
        /// Whether all loops of the node are done.
        package var isEnded: Bool

        package init(
            project: ProjectNumber, messageNumber: UInt64, delivered: UInt64, blocks: UInt32,
            isEnded: Bool
        ) {
            self.project = project
            self.messageNumber = messageNumber
            self.delivered = delivered
            self.blocks = blocks
            self.isEnded = isEnded
        }
    }

    private static let entryBytes = 25

    package var entries: [Entry]

    /// - Parameter entries: at most `NodeLimits.endedEntriesMax`.
    package init(entries: [Entry]) { self.entries = entries }

    package var type: FrameType { .ended }

    init(from reader: inout WireReader) throws(WireError) {
        entries = try reader.list(entryBytesMin: Self.entryBytes) { (reader) throws(WireError) in
            Entry(
                project: ProjectNumber(try reader.u32()), messageNumber: try reader.u64(),
                delivered: try reader.u64(), blocks: try reader.u32(),
                isEnded: try reader.flag("ended"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.list(entries) { (writer, entry) in
            writer.u32(entry.project.rawValue)
            writer.u64(entry.messageNumber)
            writer.u64(entry.delivered)
            writer.u32(entry.blocks)
            writer.flag(entry.isEnded)
        }
    }
}

/// LISTEN (0xC7): a listener for messages of devices comes to a follower, or goes, or does not get messages.
package struct NodeListen: WireFrame {
    package enum Operation: UInt8, CaseIterable, Sendable {
        case listen = 1
        /// The listener gets no further message. The messages in `kept` stay with the listener until its end.
        case retire = 2
        case leave = 3
        /// The follower has dropped the messages in `kept`: they are gone, or were now or never and found no room.
        case taken = 4
    }

    package var operation: Operation
    package var project: ProjectNumber
    /// Number of the listener, chosen by the follower and unique on the link; 0 for `taken`.
    package var listener: UInt64
    /// Numbers of messages that stay with a retired listener, or were dropped; empty for the other operations.
    package var kept: [UInt64]

    package init(
        _ operation: Operation, project: ProjectNumber, listener: UInt64, kept: [UInt64] = []
    ) {
        self.operation = operation
        self.project = project
        self.listener = listener
        self.kept = kept
    }

    package var type: FrameType { .listen }

    init(from reader: inout WireReader) throws(WireError) {
        operation = try reader.choice("operation")
        project = ProjectNumber(try reader.u32())
        listener = try reader.u64()
        kept = try reader.list(entryBytesMin: 8) { (reader) throws(WireError) in try reader.u64() }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u8(operation.rawValue)
        writer.u32(project.rawValue)
        writer.u64(listener)
        writer.list(kept) { (writer, number) in writer.u64(number) }
    }
}

/// NODE_UPSTREAM (0xC8): a message of a device, for a listener of a follower.
package struct NodeUpstream: WireFrame {
    package var listener: UInt64
    package var delivery: UpstreamDelivery

    package init(listener: UInt64, delivery: UpstreamDelivery) {
        self.listener = listener
        self.delivery = delivery
    }

    package var type: FrameType { .nodeUpstream }

    init(from reader: inout WireReader) throws(WireError) {
        listener = try reader.u64()
        delivery = try UpstreamDelivery(from: &reader)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(listener)
        delivery.encodeBody(into: &writer)
    }
}

/// A frame of a link between two nodes.
package enum NodeFrame: Sendable, Hashable {
    case hello(NodeHello)
    case ping(Ping)
    case pong(Pong)
    case error(ErrorFrame)
    case committed(NodeCommitted)
    case forward(NodeForward)
    case ended(NodeEnded)
    case listen(NodeListen)
    case upstream(NodeUpstream)
    case figures(NodeFigures)
    case watch(NodeWatch)
    case watched(NodeEvents)
    case fanout(NodeFanout)
    case row(NodeRow)
    case quotas(NodeQuotas)

    private var frame: any WireFrame {
        switch self {
        case .hello(let frame): frame
        case .ping(let frame): frame
        case .pong(let frame): frame
        case .error(let frame): frame
        case .committed(let frame): frame
        case .forward(let frame): frame
        case .ended(let frame): frame
        case .listen(let frame): frame
        case .upstream(let frame): frame
        case .figures(let frame): frame
        case .watch(let frame): frame
        case .watched(let frame): frame
        case .fanout(let frame): frame
        case .row(let frame): frame
        case .quotas(let frame): frame
        }
    }

    package var type: FrameType { frame.type }

    /// Appends the whole frame to the writer: length, type and body.
    package func encode(into writer: inout WireWriter) { frame.encode(into: &writer) }

    /// Decodes the body of a frame of type `number`.
    /// - Throws: `WireError` if a node sends no frame of type `number`, or if the body is malformed, too short or too
    ///   long for the type.
    package static func decode(
        type number: UInt8, body: UnsafeRawBufferPointer
    ) throws(WireError) -> Self {
        guard let type = FrameType(rawValue: number) else { throw .unknownFrameType(number) }
        var reader = WireReader(body)
        let frame: Self =
            switch type {
            case .hello: .hello(try NodeHello(from: &reader))
            case .ping: .ping(try Ping(from: &reader))
            case .pong: .pong(try Pong(from: &reader))
            case .error: .error(try ErrorFrame(from: &reader))
            case .committed: .committed(try NodeCommitted(from: &reader))
            case .forward: .forward(try NodeForward(from: &reader))
            case .ended: .ended(try NodeEnded(from: &reader))
            case .listen: .listen(try NodeListen(from: &reader))
            case .nodeUpstream: .upstream(try NodeUpstream(from: &reader))
            case .nodeFigures: .figures(try NodeFigures(from: &reader))
            case .nodeWatch: .watch(try NodeWatch(from: &reader))
            case .nodeEvents: .watched(try NodeEvents(from: &reader))
            case .nodeFanout: .fanout(try NodeFanout(from: &reader))
            case .nodeRow: .row(try NodeRow(from: &reader))
            case .nodeQuotas: .quotas(try NodeQuotas(from: &reader))
            default: throw .unexpectedFrame(type)
            }
        try reader.finish()
        return frame
    }

    /// Decodes the body of a frame of type `number`, for callers without pointers.
    package static func decode(type number: UInt8, body: RawSpan) throws(WireError) -> Self {
        try body.withUnsafeBytes { (bytes) throws(WireError) in
            try decode(type: number, body: bytes)
        }
    }
}
