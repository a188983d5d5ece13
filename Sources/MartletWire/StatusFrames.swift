// SPDX-License-Identifier: Apache-2.0
//
// The present state of a broker, for the administrator. Counters begin when the broker starts; the difference of
// two answers gives a rate. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// STATUS (0x52): asks for the state of the broker. Answered by STATUS_RESULT.
public struct StatusRequest: WireFrame {
    public var correlation: UInt32

    public init(correlation: UInt32) { self.correlation = correlation }

    package var type: FrameType { .status }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }

    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// STATUS_RESULT (0x53): the state of the broker and of the busiest projects.
public struct StatusResult: WireFrame {
    public struct ProjectStatus: Sendable, Hashable {
        public var projectID: String
        public var weight: UInt32
        public var connections: UInt64
        /// Messages that the project's fanouts brought to connections since the broker started.
        public var delivered: UInt64
        public var fanoutsInProgress: UInt32
        public var fanoutsDeferred: UInt32
        /// Bytes held for the fanouts in progress.
        public var fanoutBytes: UInt64
        /// Bytes of frames that wait to be sent to the project's connections.
        public var frameBytes: UInt64
        /// Bytes of unanswered requests from the project's connections.
        public var requestBytes: UInt64
        /// Part of all delivery capacity that belongs to the project, in millionths.
        public var share: UInt32

        public init(
            projectID: String, weight: UInt32, connections: UInt64, delivered: UInt64,
            fanoutsInProgress: UInt32, fanoutsDeferred: UInt32, fanoutBytes: UInt64,
            frameBytes: UInt64, requestBytes: UInt64, share: UInt32
        ) {
            self.projectID = projectID
            self.weight = weight
            self.connections = connections
            self.delivered = delivered
            self.fanoutsInProgress = fanoutsInProgress
            self.fanoutsDeferred = fanoutsDeferred
            self.fanoutBytes = fanoutBytes
            self.frameBytes = frameBytes
            self.requestBytes = requestBytes
            self.share = share
        }
    }

    public var correlation: UInt32
    /// The broker's clock.
    public var now: Instant
    public var connections: UInt64
    /// Messages delivered since the broker started.
    public var delivered: UInt64
    /// Messages acknowledged since the broker started.
    public var acknowledged: UInt64
    /// Times that a session fell behind since the broker started.
    public var fellBehind: UInt64
    /// Commands that wait for the committer.
    public var commandsWaiting: UInt64
    /// Bytes of frames that wait to be sent.
    public var frameBytes: UInt64
    /// Bytes of unanswered requests.
    public var requestBytes: UInt64
    /// Bytes of the store in use.
    public var storeBytes: UInt64
    /// Bytes that the process has allocated; 0: not known.
    public var allocatedBytes: UInt64
    /// Projects with a connection, a request or a fanout, the busiest first, at most 1000.
    public var projects: [ProjectStatus]

    public init(
        correlation: UInt32, now: Instant, connections: UInt64, delivered: UInt64,
        acknowledged: UInt64, fellBehind: UInt64, commandsWaiting: UInt64, frameBytes: UInt64,
        requestBytes: UInt64, storeBytes: UInt64, allocatedBytes: UInt64, projects: [ProjectStatus]
    ) {
        self.correlation = correlation
        self.now = now
        self.connections = connections
        self.delivered = delivered
        self.acknowledged = acknowledged
        self.fellBehind = fellBehind
        self.commandsWaiting = commandsWaiting
        self.frameBytes = frameBytes
        self.requestBytes = requestBytes
        self.storeBytes = storeBytes
        self.allocatedBytes = allocatedBytes
        self.projects = projects
    }

    package var type: FrameType { .statusResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        now = Instant(millisecondsSince1970: try reader.i64())
        connections = try reader.u64()
        delivered = try reader.u64()
        acknowledged = try reader.u64()
        fellBehind = try reader.u64()
        commandsWaiting = try reader.u64()
        frameBytes = try reader.u64()
        requestBytes = try reader.u64()
        storeBytes = try reader.u64()
        allocatedBytes = try reader.u64()
        projects = try reader.list(entryBytesMin: 58) { (reader) throws(WireError) in
            ProjectStatus(
                projectID: try reader.string(), weight: try reader.u32(),
                connections: try reader.u64(), delivered: try reader.u64(),
                fanoutsInProgress: try reader.u32(), fanoutsDeferred: try reader.u32(),
                fanoutBytes: try reader.u64(), frameBytes: try reader.u64(),
                requestBytes: try reader.u64(), share: try reader.u32())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.i64(now.millisecondsSince1970)
        writer.u64(connections)
        writer.u64(delivered)
        writer.u64(acknowledged)
        writer.u64(fellBehind)
        writer.u64(commandsWaiting)
        writer.u64(frameBytes)
        writer.u64(requestBytes)
        writer.u64(storeBytes)
        writer.u64(allocatedBytes)
        writer.list(projects) { (writer, project) in
            writer.string(project.projectID)
            writer.u32(project.weight)
            writer.u64(project.connections)
            writer.u64(project.delivered)
            writer.u32(project.fanoutsInProgress)
            writer.u32(project.fanoutsDeferred)
            writer.u64(project.fanoutBytes)
            writer.u64(project.frameBytes)
            writer.u64(project.requestBytes)
            writer.u32(project.share)
        }
    }
}
