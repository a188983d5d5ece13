// SPDX-License-Identifier: Apache-2.0
//
// `martlet project`: creates, changes and lists projects. Rests on AdministratorAccess.

import ArgumentParser
import Martlet

struct ProjectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "project", abstract: "Create, change and list projects.",
        subcommands: [Create.self, Change.self, List.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(abstract: "Create a project.")

        @Argument(help: "Its ID: 1 to 64 of a-z, 0-9 and '-'.")
        var id: String

        @Option(
            name: .customLong("condition-topics"),
            help: "Distinct topics that one of its conditions may name, 1 to 64.")
        var conditionTopicsMax = Limits.conditionTopicsMax

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard (1...Limits.conditionTopicsCeiling).contains(conditionTopicsMax) else {
                throw ValidationError(
                    "--condition-topics takes a number from 1 to \(Limits.conditionTopicsCeiling).")
            }
        }

        func perform() async throws {
            let access = try await folder.access.administrator(creating: true)
            let project = try await access.createProject(
                id, conditionTopicsMax: conditionTopicsMax)
            try await access.close()
            // The key is shown below, so a folder that takes no file is no reason to fail.
            try? folder.access.keepRegistrationKey(project.registrationKey, of: id)
            if output.json { return JSON.print(project) }
            Terminal.print(
                """
                Created project \(project.project), sender ID \(project.senderID), up to \
                \(project.conditionTopicsMax) topics in a condition.
                Registration key \(project.registrationKey)
                """)
        }
    }

    struct Change: ReportingCommand {
        static let configuration = CommandConfiguration(
            commandName: "set", abstract: "Set a project's share and its limits.",
            discussion: "What is not given stays as it is. Holds at once.")

        @Argument(help: "Its ID.")
        var id: String

        @Option(help: "Its share of the delivery capacity beside those of others, 1 to 1000.")
        var weight: Int?

        @Option(
            help: ArgumentHelp(
                "What becomes of a message to many when too many are in progress: defer or refuse.",
                valueName: "policy"))
        var onOverload: Overload?

        @Option(
            name: .customLong("condition-topics"),
            help: "Distinct topics that one of its conditions may name, 1 to 64.")
        var conditionTopicsMax: Int?

        enum Overload: String, ExpressibleByArgument, CaseIterable {
            case `defer`, refuse

            var policy: OverloadPolicy { self == .defer ? .defer : .refuse }
        }

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard weight != nil || onOverload != nil || conditionTopicsMax != nil else {
                throw ValidationError("Give --weight, --on-overload or --condition-topics.")
            }
            guard (1...Limits.conditionTopicsCeiling).contains(conditionTopicsMax ?? 1) else {
                throw ValidationError(
                    "--condition-topics takes a number from 1 to \(Limits.conditionTopicsCeiling).")
            }
            guard (1...Limits.projectWeightMax).contains(weight ?? 1) else {
                throw ValidationError(
                    "--weight takes a number from 1 to \(Limits.projectWeightMax).")
            }
        }

        func perform() async throws {
            let access = try await folder.access.administrator()
            let project = try await access.changeProject(
                id, weight: weight, overload: onOverload?.policy,
                conditionTopicsMax: conditionTopicsMax)
            try await access.close()
            if output.json { return JSON.print(project) }
            Terminal.print(
                "Project \(project.project): weight \(project.weight), on overload "
                    + "\(project.onOverload), up to \(project.conditionTopicsMax) topics in a condition."
            )
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(abstract: "List the projects.")

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let access = try await folder.access.administrator()
            let projects = try await allPages("projects") { try await access.projects(after: $0) }
            try await access.close()
            if output.json { return JSON.print(projects) }
            var table = Table(
                ("PROJECT", .left), ("SENDER ID", .right), ("INSTANCES", .right),
                ("TOPICS", .right), ("TOPICS PER CONDITION", .right), ("WEIGHT", .right),
                ("ON OVERLOAD", .left))
            for project in projects {
                table.add(
                    project.project, "\(project.senderID)", "\(project.instances)",
                    "\(project.topics)", "\(project.conditionTopicsMax)", "\(project.weight)",
                    project.onOverload)
            }
            Terminal.print(table.text)
        }
    }
}
