// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8), with their frames and answers. Rests on
// `Lists` and `AdministratorInterface`.

public import MartletBase

/// A change of one app.
package protocol AppChange: Sendable {
    static var type: FrameType { get }
}

/// Makes an app.
package enum CreatesApp: AppChange {
    package static var type: FrameType { .createApp }
}

/// Deletes an app and unregisters its instances. The answer comes when the deletion has begun.
package enum DeletesApp: AppChange {
    package static var type: FrameType { .deleteApp }
}

/// CREATE_APP (0xA9), answered by DONE.
package typealias CreateAppRequest = ChangeApp<CreatesApp>
/// DELETE_APP (0xAA), answered by DONE.
package typealias DeleteAppRequest = ChangeApp<DeletesApp>

/// Changes one app. Answered by DONE.
package struct ChangeApp<Change: AppChange>: WireRequest {
    package typealias Answer = Done

    package var correlation: UInt32
    package var projectID: String
    package var name: String
    package var platform: Platform

    package init(correlation: UInt32 = 0, projectID: String, name: String, platform: Platform) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
        self.platform = platform
    }

    package static var type: FrameType { Change.type }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        name = try reader.string()
        platform = try reader.choice("platform")
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(name)
        writer.u8(platform.rawValue)
    }
}

/// The apps of a project (REG-8).
package enum Apps: ListedKind {
    package static var listType: FrameType { .listApps }
    package static var pageType: FrameType { .appPage }
    package static var entryBytesMin: Int { 12 }

    package static func decode(from reader: inout WireReader) throws(WireError) -> AppSummary {
        AppSummary(
            name: try reader.string(), platform: try reader.choice("platform"),
            instanceCount: try reader.u64(), isBeingDeleted: try reader.flag("being deleted"))
    }

    package static func encode(_ app: AppSummary, into writer: inout WireWriter) {
        writer.string(app.name)
        writer.u8(app.platform.rawValue)
        writer.u64(app.instanceCount)
        writer.flag(app.isBeingDeleted)
    }
}

/// LIST_APPS (0xAB), answered by APP_PAGE.
package typealias ListAppsRequest = ListRequest<Apps>
/// APP_PAGE (0xAC).
package typealias AppPage = ListResult<Apps>

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
        try await list(Apps.self, in: project)
    }
}
