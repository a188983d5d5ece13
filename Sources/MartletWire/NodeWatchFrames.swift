// SPDX-License-Identifier: Apache-2.0
//
// The frames of watched projects between nodes (EMB-3): a node tells the projects that it wants to hear of, and gets
// the events of other nodes. Without a watcher in the cluster the only such frame is the last one: a list without
// projects. Rests on `WireReader` and `WireWriter`.

package import MartletBase

/// NODE_WATCH (0xCB): all projects of which the sending node wants events from now on. Replaces the list of the last
/// frame.
package struct NodeWatch: WireFrame {
    package struct Entry: Sendable, Hashable {
        package var project: ProjectNumber
        /// ID of the project.
        package var id: String

        package init(project: ProjectNumber, id: String) {
            self.project = project
            self.id = id
        }
    }

    package var projects: [Entry]

    /// - Parameter projects: at most `NodeLimits.watchedProjectsMax`.
    package init(projects: [Entry]) { self.projects = projects }

    package var type: FrameType { .nodeWatch }

    init(from reader: inout WireReader) throws(WireError) {
        projects = try reader.list(entryBytesMin: 6) { (reader) throws(WireError) in
            Entry(project: ProjectNumber(try reader.u32()), id: try reader.string())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.list(projects) { (writer, entry) in
            writer.u32(entry.project.rawValue)
            writer.string(entry.id)
        }
    }
}

/// NODE_EVENTS (0xCC): the events of a project on a node since the last frame.
package struct NodeEvents: WireFrame {
    /// An event of a project.
    package enum Event: Sendable, Hashable {
        case accepted(
            messageID: String, recipientCount: UInt64, isDeferred: Bool, isScheduled: Bool)
        case progress(
            messageID: String, recipientCount: UInt64, deliveredCount: UInt64, isDone: Bool)
        case refused(MartletError)

        private enum Kind: UInt8 {
            case accepted = 1
            case progress
            case refused
        }
    }

    /// Sums of a node: growths since the last frame.
    package struct Sums: Sendable, Hashable {
        package var accepted: UInt64 = 0
        package var upstream: UInt64 = 0
        package var refused: UInt64 = 0
        package var connected: UInt64 = 0
        package var disconnected: UInt64 = 0
        package var dropped: UInt64 = 0
        package var counts = DeliveryCounts()

        package init() {}
    }

    /// Name of the node with the events.
    package var node: String
    package var project: ProjectNumber
    /// Instances connected to the node now.
    package var connectionCount: UInt64
    package var sums: Sums
    package var events: [Event]

    package init(
        node: String, project: ProjectNumber, connectionCount: UInt64, sums: Sums = Sums(),
        events: [Event] = []
    ) {
        self.node = node
        self.project = project
        self.connectionCount = connectionCount
        self.sums = sums
        self.events = events
    }

    package var type: FrameType { .nodeEvents }

    init(from reader: inout WireReader) throws(WireError) {
        node = try reader.string()
        project = ProjectNumber(try reader.u32())
        connectionCount = try reader.u64()
        sums = Sums()
        sums.accepted = try reader.u64()
        sums.upstream = try reader.u64()
        sums.refused = try reader.u64()
        sums.connected = try reader.u64()
        sums.disconnected = try reader.u64()
        sums.dropped = try reader.u64()
        sums.counts = try DeliveryCounts(from: &reader)
        events = try reader.list(entryBytesMin: 13) { (reader) throws(WireError) in
            try Event(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.string(node)
        writer.u32(project.rawValue)
        writer.u64(connectionCount)
        writer.u64(sums.accepted)
        writer.u64(sums.upstream)
        writer.u64(sums.refused)
        writer.u64(sums.connected)
        writer.u64(sums.disconnected)
        writer.u64(sums.dropped)
        sums.counts.encode(into: &writer)
        writer.list(events) { (writer, event) in event.encode(into: &writer) }
    }
}

extension NodeEvents.Event {
    fileprivate init(from reader: inout WireReader) throws(WireError) {
        switch try reader.choice("event", as: Kind.self) {
        case .accepted:
            self = .accepted(
                messageID: try reader.string(), recipientCount: try reader.u64(),
                isDeferred: try reader.flag("deferred"), isScheduled: try reader.flag("scheduled"))
        case .progress:
            self = .progress(
                messageID: try reader.string(), recipientCount: try reader.u64(),
                deliveredCount: try reader.u64(), isDone: try reader.flag("done"))
        case .refused:
            let word = try reader.errorWord()
            let retryDelay = try reader.optionalU32()
            let byteOffset = try reader.optionalU32()
            let field = try reader.string()
            self = .refused(
                MartletError(
                    word, try reader.string(), field: field, byteOffset: byteOffset,
                    retryDelayMilliseconds: retryDelay))
        }
    }

    fileprivate func encode(into writer: inout WireWriter) {
        switch self {
        case .accepted(let messageID, let recipientCount, let isDeferred, let isScheduled):
            writer.u8(Kind.accepted.rawValue)
            writer.string(messageID)
            writer.u64(recipientCount)
            writer.flag(isDeferred)
            writer.flag(isScheduled)
        case .progress(let messageID, let recipientCount, let deliveredCount, let isDone):
            writer.u8(Kind.progress.rawValue)
            writer.string(messageID)
            writer.u64(recipientCount)
            writer.u64(deliveredCount)
            writer.flag(isDone)
        case .refused(let error):
            writer.u8(Kind.refused.rawValue)
            writer.u16(error.word.rawValue)
            writer.optionalU32(error.retryDelayMilliseconds)
            writer.optionalU32(error.byteOffset)
            writer.string(error.field)
            writer.string(error.message)
        }
    }
}
