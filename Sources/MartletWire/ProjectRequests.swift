// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about projects. Rests on `AdministratorInterface`.

public import MartletBase

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
