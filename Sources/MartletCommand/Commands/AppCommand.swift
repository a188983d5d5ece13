// SPDX-License-Identifier: Apache-2.0
//
// `martlet app`: creates, lists and deletes the apps of a project (REG-8). Rests on DataFolderAccess.

import ArgumentParser
import Martlet
import MartletAnswers

/// The options that name an app, on a command line.
struct AppOptions: ParsableArguments {
    @Argument(help: "The app: a package name or bundle ID.")
    var name: String

    @Option(parsing: .unconditional, help: "android, apple or web.")
    var platform: ListenCommand.PlatformName

    @Option(parsing: .unconditional, help: "The project.")
    var project: String
}

struct AppCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "app", abstract: "Create, list and delete a project's apps.",
        subcommands: [Create.self, List.self, Delete.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create an app.",
            discussion: """
                Only a project with the policy `open` needs it: elsewhere the first registration makes the app.
                """)

        @OptionGroup var app: AppOptions
        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Created: Encodable {
            var project: String
            var app: String
            var platform: String
        }

        func perform() async throws {
            try await folder.access.administrator(of: app.project) {
                try await $0.createApp(app.name, on: app.platform.platform, in: app.project)
            }
            try folder.access.note(
                "app.create", "\(app.platform.rawValue) \(app.name)", in: app.project)
            if output.json {
                return JSON.print(
                    Created(
                        project: app.project, app: app.name, platform: app.platform.rawValue))
            }
            Terminal.print(
                "Created app \(app.name) on \(app.platform.rawValue) in project \(app.project).")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's apps, with the number of their instances.")

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let apps = try await folder.access.administrator(of: project) {
                try await $0.apps(in: project)
            }
            if output.json { return JSON.print(apps.map { AppAnswer($0) }) }
            var table = Table(
                ("APP", .left), ("PLATFORM", .left), ("INSTANCES", .right), ("STATE", .left))
            for app in apps {
                table.add(
                    app.name, app.platform.name, "\(app.instanceCount)",
                    app.isBeingDeleted ? "being deleted" : "there")
            }
            Terminal.print(table.text)
        }
    }

    struct Delete: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an app: all its instances are unregistered for good.",
            discussion: """
                The command ends when the deletion has begun. The broker then unregisters the instances, and \
                `martlet app list` shows the app until the last is gone.
                """)

        @OptionGroup var app: AppOptions
        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Deleted: Encodable {
            var project: String
            var app: String
            var platform: String
            var deleted = true
        }

        func perform() async throws {
            try await folder.access.administrator(of: app.project) {
                try await $0.deleteApp(app.name, on: app.platform.platform, in: app.project)
            }
            try folder.access.note(
                "app.delete", "\(app.platform.rawValue) \(app.name)", in: app.project)
            if output.json {
                return JSON.print(
                    Deleted(
                        project: app.project, app: app.name, platform: app.platform.rawValue))
            }
            Terminal.print(
                "App \(app.name) on \(app.platform.rawValue) is being deleted from project "
                    + "\(app.project).")
        }
    }
}
