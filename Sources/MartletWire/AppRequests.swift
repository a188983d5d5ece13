// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8). Rests on `AdministratorInterface`.

public import MartletBase

extension AdministratorInterface {
    /// Makes an app (REG-8). Only a project with the policy `open` needs the call, because otherwise the first
    /// registration makes the app.
    /// - Parameter name: package name or bundle ID, 1 to 255 bytes of `[a-zA-Z0-9-_.~%]`.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more
    ///   than 512 apps, `UNAVAILABLE` while the app is being deleted.
    public func createApp(
        _ name: String, on platform: Platform, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            CreateAppRequest(projectID: project, name: name, platform: platform))
    }

    /// Deletes an app (REG-8). The call returns when the deletion has begun and survives a crash. The broker then
    /// unregisters the app's instances, some in each transaction, and the app's place is free after the last.
    /// - Throws: `NOT_FOUND`.
    public func deleteApp(
        _ name: String, on platform: Platform, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            DeleteAppRequest(projectID: project, name: name, platform: platform))
    }

    /// The apps that take a place of the project, in the order of their creation.
    /// - Throws: `NOT_FOUND`.
    public func apps(in project: String) async throws(Failure) -> [AppSummary] {
        try await requests.ask(ListAppsRequest(projectID: project)).entries
    }
}
