// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about projects, and the answers. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// CREATE_PROJECT (0x30): creates a project with a registration key (REG-7). Answered by PROJECT.
public struct CreateProjectRequest: WireRequest {
    package typealias Answer = ProjectResult

    public var correlation: UInt32
    public var projectID: String
    /// CON-3: distinct topics that a condition may name; 0 leaves the broker's limit in force.
    public var conditionTopicsMax: UInt8

    public init(correlation: UInt32 = 0, projectID: String, conditionTopicsMax: UInt8 = 0) {
        self.correlation = correlation
        self.projectID = projectID
        self.conditionTopicsMax = conditionTopicsMax
    }

    package static var type: FrameType { .createProject }

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
public struct ChangeProjectRequest: WireRequest {
    package typealias Answer = ProjectResult

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
        correlation: UInt32 = 0, projectID: String, weight: UInt32? = nil,
        overload: OverloadPolicy? = nil, conditionTopicsMax: UInt8? = nil
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.weight = weight
        self.overload = overload
        self.conditionTopicsMax = conditionTopicsMax
    }

    package static var type: FrameType { .changeProject }

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
public struct ProjectResult: WireAnswer {
    public var correlation: UInt32
    public var project: ProjectSummary
    /// REG-7: text of the new project's registration key, told only here; empty in an answer to CHANGE_PROJECT.
    public var registrationKey: String

    public init(correlation: UInt32 = 0, project: ProjectSummary, registrationKey: String = "") {
        self.correlation = correlation
        self.project = project
        self.registrationKey = registrationKey
    }

    package static var type: FrameType { .project }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        project = try ProjectSummary(from: &reader)
        registrationKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        project.encode(into: &writer)
        writer.string(registrationKey)
    }
}

/// LIST_PROJECTS (0x32): asks for projects in order of ID. Answered by PROJECT_PAGE.
public struct ListProjectsRequest: WireRequest {
    package typealias Answer = ProjectPage

    public var correlation: UInt32
    /// Project ID after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    package static var type: FrameType { .listProjects }

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
public struct ProjectPage: WireAnswer {
    public var correlation: UInt32
    /// True if there are projects after the last entry of the page.
    public var hasMore: Bool
    public var projects: [ProjectSummary]

    public init(correlation: UInt32 = 0, hasMore: Bool, projects: [ProjectSummary]) {
        self.correlation = correlation
        self.hasMore = hasMore
        self.projects = projects
    }

    package static var type: FrameType { .projectPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        hasMore = try reader.flag("more")
        projects = try reader.list(entryBytesMin: 32) { (reader) throws(WireError) in
            try ProjectSummary(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(hasMore)
        writer.list(projects) { (writer, project) in project.encode(into: &writer) }
    }
}

extension ProjectSummary {
    fileprivate init(from reader: inout WireReader) throws(WireError) {
        self.init(
            id: try reader.string(), senderID: try reader.u64(),
            conditionTopicsMax: Int(try reader.u8()), instanceCount: try reader.u64(),
            topicCount: try reader.u64(), weight: Int(try reader.u32()),
            overload: try reader.choice("overload policy"))
    }

    fileprivate func encode(into writer: inout WireWriter) {
        writer.string(id)
        writer.u64(senderID)
        writer.u8(UInt8(clamping: conditionTopicsMax))
        writer.u64(instanceCount)
        writer.u64(topicCount)
        writer.u32(UInt32(clamping: weight))
        writer.u8(overload.rawValue)
    }
}

extension AdministratorInterface {
    /// Creates a project with a first registration key. New devices must present the key (REG-7).
    /// - Parameters:
    ///   - id: 1 to 64 characters of `[a-z0-9-]`.
    ///   - conditionTopicsMax: CON-3: the project's own limit of distinct topics in a condition, 1 to 64; nil leaves the
    ///     broker's limit in force.
    /// - Throws: `ALREADY_EXISTS`, `INVALID_ARGUMENT`.
    @discardableResult
    public func createProject(
        _ id: String, conditionTopicsMax: Int? = nil
    ) async throws(Failure) -> NewProject {
        // A value outside of the type becomes the largest value, which the broker refuses. So does 0.
        let topicsMax = conditionTopicsMax.map { UInt8(exactly: $0) ?? .max }
        let result = try await requests.ask(
            CreateProjectRequest(
                projectID: id, conditionTopicsMax: topicsMax.map { $0 == 0 ? .max : $0 } ?? 0))
        return NewProject(summary: result.project, registrationKey: result.registrationKey)
    }

    /// Changes the settings of a project, with immediate effect. nil keeps a setting.
    /// - Parameters:
    ///   - weight: FAN-2: share of capacity relative to other projects, 1 to 1000.
    ///   - overload: FAN-1: whether a message is deferred or refused while too many fanouts of the project are
    ///     in progress.
    ///   - conditionTopicsMax: CON-3: the project's own limit of distinct topics in a condition, 1 to 64.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    @discardableResult
    public func changeProject(
        _ id: String, weight: Int? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: Int? = nil
    ) async throws(Failure) -> ProjectSummary {
        // A value outside of the type becomes the largest value, which the broker refuses.
        try await requests.ask(
            ChangeProjectRequest(
                projectID: id, weight: weight.map { UInt32(exactly: $0) ?? .max },
                overload: overload,
                conditionTopicsMax: conditionTopicsMax.map { UInt8(exactly: $0) ?? .max })
        ).project
    }

    /// All projects, in the order of their IDs.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `INVALID_ARGUMENT` for the limit.
    public func projects(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<ProjectSummary> {
        let page = try await requests.ask(
            ListProjectsRequest(after: after, limit: UInt16(pageLimit: limit)))
        return ListPage(
            entries: page.projects, next: page.hasMore ? page.projects.last?.id : nil)
    }
}
