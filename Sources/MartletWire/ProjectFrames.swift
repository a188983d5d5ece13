// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about projects, and the answers. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// A project as an administrator sees it.
public struct ProjectRecord: Sendable, Hashable {
    public var projectID: String
    public var senderID: UInt64
    /// CON-3: distinct topics that a condition of the project may name.
    public var conditionTopicsMax: UInt8
    public var instances: UInt64
    public var topics: UInt64
    /// FAN-2: share of the delivery capacity beside the shares of other projects, 1 to 1000.
    public var weight: UInt32
    /// FAN-1: policy for a message to many instances while the project has too many fanouts in progress.
    public var overload: OverloadPolicy

    public init(
        projectID: String, senderID: UInt64, conditionTopicsMax: UInt8, instances: UInt64,
        topics: UInt64, weight: UInt32 = 1, overload: OverloadPolicy = .defer
    ) {
        self.projectID = projectID
        self.senderID = senderID
        self.conditionTopicsMax = conditionTopicsMax
        self.instances = instances
        self.topics = topics
        self.weight = weight
        self.overload = overload
    }

    init(from reader: inout WireReader) throws(WireError) {
        projectID = try reader.string()
        senderID = try reader.u64()
        conditionTopicsMax = try reader.u8()
        instances = try reader.u64()
        topics = try reader.u64()
        weight = try reader.u32()
        overload = try reader.choice("overload policy")
    }

    func encode(into writer: inout WireWriter) {
        writer.string(projectID)
        writer.u64(senderID)
        writer.u8(conditionTopicsMax)
        writer.u64(instances)
        writer.u64(topics)
        writer.u32(weight)
        writer.u8(overload.rawValue)
    }
}

/// CREATE_PROJECT (0x30): creates a project with a registration key (REG-7). Answered by PROJECT.
public struct CreateProjectRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    /// CON-3: distinct topics that a condition may name; 0 is the default, 5.
    public var conditionTopicsMax: UInt8

    public init(correlation: UInt32, projectID: String, conditionTopicsMax: UInt8 = 0) {
        self.correlation = correlation
        self.projectID = projectID
        self.conditionTopicsMax = conditionTopicsMax
    }

    package var type: FrameType { .createProject }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        conditionTopicsMax = try reader.u8()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.u8(conditionTopicsMax)
    }
}

/// CHANGE_PROJECT (0x39): changes settings of a project. Answered by PROJECT.
public struct ChangeProjectRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    /// FAN-2: the new weight; nil leaves the weight unchanged. 0 on the wire means nil, because no project has
    /// weight 0.
    public var weight: UInt32?
    /// FAN-1: the new policy; nil leaves the policy unchanged.
    public var overload: OverloadPolicy?
    /// CON-3: the new limit; nil leaves the limit unchanged. 0 on the wire means nil.
    public var conditionTopicsMax: UInt8?

    public init(
        correlation: UInt32, projectID: String, weight: UInt32? = nil,
        overload: OverloadPolicy? = nil, conditionTopicsMax: UInt8? = nil
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.weight = weight
        self.overload = overload
        self.conditionTopicsMax = conditionTopicsMax
    }

    package var type: FrameType { .changeProject }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        let weight = try reader.u32()
        self.weight = weight == 0 ? nil : weight
        let policy = try reader.u8()
        overload = OverloadPolicy(rawValue: policy)
        guard overload != nil || policy == 0 else {
            throw .unknownValue(field: "overload policy", value: UInt64(policy))
        }
        let topicsMax = try reader.u8()
        conditionTopicsMax = topicsMax == 0 ? nil : topicsMax
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.u32(weight ?? 0)
        writer.u8(overload?.rawValue ?? 0)
        writer.u8(conditionTopicsMax ?? 0)
    }
}

/// PROJECT (0x31): the answer to CREATE_PROJECT and CHANGE_PROJECT.
public struct ProjectResult: WireFrame {
    public var correlation: UInt32
    public var project: ProjectRecord
    /// REG-7: text of the new project's registration key, told only here; empty in an answer to CHANGE_PROJECT.
    public var registrationKey: String

    public init(correlation: UInt32, project: ProjectRecord, registrationKey: String = "") {
        self.correlation = correlation
        self.project = project
        self.registrationKey = registrationKey
    }

    package var type: FrameType { .project }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        project = try ProjectRecord(from: &reader)
        registrationKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        project.encode(into: &writer)
        writer.string(registrationKey)
    }
}

/// LIST_PROJECTS (0x32): asks for projects in order of ID. Answered by PROJECT_PAGE.
public struct ListProjectsRequest: WireFrame {
    public var correlation: UInt32
    /// Project ID after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    package var type: FrameType { .listProjects }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        after = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(after)
        writer.u16(limit)
    }
}

/// PROJECT_PAGE (0x33): the answer to LIST_PROJECTS.
public struct ProjectPage: WireFrame {
    public var correlation: UInt32
    /// True if there are projects after the last entry of the page.
    public var hasMore: Bool
    public var projects: [ProjectRecord]

    public init(correlation: UInt32, hasMore: Bool, projects: [ProjectRecord]) {
        self.correlation = correlation
        self.hasMore = hasMore
        self.projects = projects
    }

    package var type: FrameType { .projectPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        hasMore = try reader.flag("more")
        projects = try reader.list(entryBytesMin: 32) { (reader) throws(WireError) in
            try ProjectRecord(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(hasMore)
        writer.list(projects) { (writer, project) in project.encode(into: &writer) }
    }
}
