// SPDX-License-Identifier: Apache-2.0
//
// The present state of a broker, for the administrator. Counters begin when the broker starts; the difference of
// two answers gives a rate. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// STATUS (0x52): asks for the state of the broker. Answered by STATUS_RESULT.
public struct StatusRequest: WireRequest {
    package typealias Answer = StatusResult

    public var correlation: UInt32

    public init(correlation: UInt32 = 0) { self.correlation = correlation }

    package static var type: FrameType { .status }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }

    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// STATUS_RESULT (0x53): the state of the broker and of the busiest projects.
public struct StatusResult: WireAnswer {
    public var correlation: UInt32
    public var status: BrokerStatus

    public init(correlation: UInt32 = 0, status: BrokerStatus) {
        self.correlation = correlation
        self.status = status
    }

    package static var type: FrameType { .statusResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        status = try BrokerStatus(from: &reader)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        status.encode(into: &writer)
    }
}

extension BrokerStatus {
    init(from reader: inout WireReader) throws(WireError) {
        self.init(now: Instant(millisecondsSince1970: try reader.i64()))
        connectionCount = try reader.size("connections")
        deliveredCount = try reader.u64()
        acknowledgedCount = try reader.u64()
        fellBehindCount = try reader.u64()
        commandsWaiting = try reader.size("commands")
        frameBytes = try reader.size("frame bytes")
        requestBytes = try reader.size("request bytes")
        storeBytesUsed = try reader.size("store bytes")
        let allocated = try reader.size("allocated bytes")
        allocatedBytes = allocated == 0 ? nil : allocated
        projects = try reader.list(entryBytesMin: 58) { (reader) throws(WireError) in
            ProjectStatus(
                project: try reader.string(), weight: Int(try reader.u32()),
                connectionCount: try reader.size("connections"),
                deliveredCount: try reader.u64(),
                fanoutsInProgress: Int(try reader.u32()), fanoutsDeferred: Int(try reader.u32()),
                fanoutBytes: try reader.size("fanout bytes"),
                frameBytes: try reader.size("frame bytes"),
                requestBytes: try reader.size("request bytes"),
                share: try reader.part("share"))
        }
        // A broker alone sends no list, and earlier programs do not know of the list. A single byte is left to `finish`.
        guard reader.remaining > 1 else { return }
        nodes = try reader.list(entryBytesMin: 27) { (reader) throws(WireError) in
            NodeStatus(
                node: try reader.string(), isActive: try reader.flag("active"),
                connectionCount: try reader.size("connections"),
                deliveredCount: try reader.u64(), acknowledgedCount: try reader.u64())
        }
        guard !nodes.isEmpty else { throw .unknownValue(field: "nodes", value: 0) }
    }

    func encode(into writer: inout WireWriter) {
        writer.i64(now.millisecondsSince1970)
        writer.u64(UInt64(clamping: connectionCount))
        writer.u64(deliveredCount)
        writer.u64(acknowledgedCount)
        writer.u64(fellBehindCount)
        writer.u64(UInt64(clamping: commandsWaiting))
        writer.u64(UInt64(clamping: frameBytes))
        writer.u64(UInt64(clamping: requestBytes))
        writer.u64(UInt64(clamping: storeBytesUsed))
        writer.u64(UInt64(clamping: allocatedBytes ?? 0))
        writer.list(projects) { (writer, project) in
            writer.string(project.project)
            writer.u32(UInt32(clamping: project.weight))
            writer.u64(UInt64(clamping: project.connectionCount))
            writer.u64(project.deliveredCount)
            writer.u32(UInt32(clamping: project.fanoutsInProgress))
            writer.u32(UInt32(clamping: project.fanoutsDeferred))
            writer.u64(UInt64(clamping: project.fanoutBytes))
            writer.u64(UInt64(clamping: project.frameBytes))
            writer.u64(UInt64(clamping: project.requestBytes))
            writer.u32(UInt32(millionths: project.share))
        }
        guard !nodes.isEmpty else { return }
        writer.list(nodes) { (writer, node) in
            writer.string(node.node)
            writer.flag(node.isActive)
            writer.u64(UInt64(clamping: node.connectionCount))
            writer.u64(node.deliveredCount)
            writer.u64(node.acknowledgedCount)
        }
    }
}

extension AdministratorInterface {
    /// FAN-8: the present state of the broker, with the load of each project.
    /// - Throws: `UNAVAILABLE` if the store cannot be read.
    public func status() async throws(Failure) -> BrokerStatus {
        try await requests.ask(StatusRequest()).status
    }
}
