// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the limits that a project has of its own (OPS-2). Rests on `AdministratorInterface`.

public import MartletBase

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
