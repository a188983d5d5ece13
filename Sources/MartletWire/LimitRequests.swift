// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the limits that a project has of its own (OPS-2), with their frames and the answer.
// Rests on `WireReader`, `WireWriter` and `AdministratorInterface`.

public import MartletBase

/// FIND_LIMITS (0xB0): asks for the limits of a project. Answered by LIMITS.
public struct FindLimitsRequest: WireRequest {
    package typealias Answer = LimitsResult

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .findLimits }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// LIMITS (0xB1): the answer to FIND_LIMITS and CHANGE_LIMITS.
public struct LimitsResult: WireAnswer {
    public var correlation: UInt32
    /// Each limit that a project may have of its own, in the order of their numbers.
    public var limits: [ProjectLimitSummary]

    public init(correlation: UInt32 = 0, limits: [ProjectLimitSummary]) {
        self.correlation = correlation
        self.limits = limits
    }

    package static var type: FrameType { .limits }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        limits = try reader.list(entryBytesMin: 6) { (reader) throws(WireError) in
            ProjectLimitSummary(
                limit: try reader.choice("limit"), value: Int(try reader.u32()),
                isOwn: try reader.flag("own"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(limits) { (writer, limit) in
            writer.u8(limit.limit.rawValue)
            writer.u32(UInt32(clamping: limit.value))
            writer.flag(limit.isOwn)
        }
    }
}

/// CHANGE_LIMITS (0xB2): gives a project limits of its own, or takes them back. Answered by LIMITS.
public struct ChangeLimitsRequest: WireRequest {
    package typealias Answer = LimitsResult

    public var correlation: UInt32
    public var projectID: String
    /// The limits that change. A limit that is named twice takes the last value. A value above 4,294,967,294 becomes
    /// 4,294,967,294, which no limit allows.
    public var changes: [ProjectLimitChange]

    public init(correlation: UInt32 = 0, projectID: String, changes: [ProjectLimitChange]) {
        self.correlation = correlation
        self.projectID = projectID
        self.changes = changes
    }

    package static var type: FrameType { .changeLimits }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        changes = try reader.list(entryBytesMin: 5) { (reader) throws(WireError) in
            ProjectLimitChange(
                try reader.choice("limit"), to: try reader.optionalU32().map { Int($0) })
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.list(changes) { (writer, change) in
            writer.u8(change.limit.rawValue)
            writer.optionalU32(
                change.value.map { UInt32(exactly: $0) ?? WireVersion.absent - 1 })
        }
    }
}

extension AdministratorInterface {
    /// OPS-2: the limits of a project: its own values, and the broker's values of the others.
    /// - Throws: `NOT_FOUND`.
    public func limits(of project: String) async throws(Failure) -> [ProjectLimitSummary] {
        try await requests.ask(FindLimitsRequest(projectID: project)).limits
    }

    /// OPS-2: gives a project limits of its own, or takes them back, with immediate effect on every connection. What the
    /// project has beyond a lower limit stays, and nothing is added to it.
    /// - Parameter changes: at most one change for each limit; other limits stay as they are.
    /// - Returns: the limits in force from now on.
    /// - Throws: `NOT_FOUND`; `INVALID_ARGUMENT` for a value out of the bounds of its limit. Nothing is changed then.
    @discardableResult
    public func changeLimits(
        _ changes: [ProjectLimitChange], in project: String
    ) async throws(Failure) -> [ProjectLimitSummary] {
        try await requests.ask(
            ChangeLimitsRequest(projectID: project, changes: changes)
        ).limits
    }
}
