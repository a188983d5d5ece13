// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8), with their frames and answers. Rests on
// `WireReader`, `WireWriter` and `AdministratorInterface`.

public import MartletBase

/// CREATE_APP (0xA9): makes an app. Answered by DONE.
public struct CreateAppRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var name: String
    public var platform: Platform

    public init(correlation: UInt32 = 0, projectID: String, name: String, platform: Platform) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
        self.platform = platform
    }

    package static var type: FrameType { .createApp }

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

/// DELETE_APP (0xAA): deletes an app and unregisters its instances. Answered by DONE when the deletion has begun.
public struct DeleteAppRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var name: String
    public var platform: Platform

    public init(correlation: UInt32 = 0, projectID: String, name: String, platform: Platform) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
        self.platform = platform
    }

    package static var type: FrameType { .deleteApp }

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

/// LIST_APPS (0xAB): asks for the apps of a project. Answered by APP_PAGE.
public struct ListAppsRequest: WireRequest {
    package typealias Answer = AppPage

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .listApps }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// APP_PAGE (0xAC): the answer to LIST_APPS.
public struct AppPage: WireAnswer {
    public var correlation: UInt32
    public var apps: [AppSummary]

    public init(correlation: UInt32 = 0, apps: [AppSummary]) {
        self.correlation = correlation
        self.apps = apps
    }

    package static var type: FrameType { .appPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        apps = try reader.list(entryBytesMin: 12) { (reader) throws(WireError) in
            AppSummary(
                name: try reader.string(), platform: try reader.choice("platform"),
                instanceCount: try reader.u64(), isBeingDeleted: try reader.flag("being deleted"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(apps) { (writer, app) in
            writer.string(app.name)
            writer.u8(app.platform.rawValue)
            writer.u64(app.instanceCount)
            writer.flag(app.isBeingDeleted)
        }
    }
}

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
        try await requests.ask(ListAppsRequest(projectID: project)).apps
    }
}
