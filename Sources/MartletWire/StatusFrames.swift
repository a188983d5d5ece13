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
        status = BrokerStatus(now: Instant(millisecondsSince1970: try reader.i64()))
        status.connectionCount = try reader.size("connections")
        status.deliveredCount = try reader.u64()
        status.acknowledgedCount = try reader.u64()
        status.fellBehindCount = try reader.u64()
        status.commandsWaiting = try reader.size("commands")
        status.frameBytes = try reader.size("frame bytes")
        status.requestBytes = try reader.size("request bytes")
        status.storeBytesUsed = try reader.size("store bytes")
        let allocated = try reader.size("allocated bytes")
        status.allocatedBytes = allocated == 0 ? nil : allocated
        status.projects = try reader.list(entryBytesMin: 58) { (reader) throws(WireError) in
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
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.i64(status.now.millisecondsSince1970)
        writer.u64(UInt64(clamping: status.connectionCount))
        writer.u64(status.deliveredCount)
        writer.u64(status.acknowledgedCount)
        writer.u64(status.fellBehindCount)
        writer.u64(UInt64(clamping: status.commandsWaiting))
        writer.u64(UInt64(clamping: status.frameBytes))
        writer.u64(UInt64(clamping: status.requestBytes))
        writer.u64(UInt64(clamping: status.storeBytesUsed))
        writer.u64(UInt64(clamping: status.allocatedBytes ?? 0))
        writer.list(status.projects) { (writer, project) in
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
    }
}

extension AdministratorInterface {
    /// FAN-8: the present state of the broker, with the load of each project.
    /// - Throws: `UNAVAILABLE` if the store cannot be read.
    public func status() async throws(Failure) -> BrokerStatus {
        try await requests.ask(StatusRequest()).status
    }
}
