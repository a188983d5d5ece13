// SPDX-License-Identifier: Apache-2.0
//
// `martlet project`: creates, changes and lists projects. Rests on DataFolderAccess.

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
            let new = try await folder.access.administrator(creating: true) {
                try await $0.createProject(id, conditionTopicsMax: conditionTopicsMax)
            }
            // The key is shown below, so a folder that takes no file is no reason to fail.
            try? folder.access.keepRegistrationKey(new.registrationKey, of: id)
            let project = NewProjectAnswer(new)
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
            let project = ProjectAnswer(
                try await folder.access.administrator {
                    try await $0.changeProject(
                        id, weight: weight, overload: onOverload?.policy,
                        conditionTopicsMax: conditionTopicsMax)
                })
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
            let projects = try await folder.access.administrator { administrator in
                try await allPages("projects") { try await administrator.projects(after: $0) }
            }.map { ProjectAnswer($0) }
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

private struct ProjectAnswer: Encodable {
    var project: String
    var senderID: UInt64
    var conditionTopicsMax: Int
    var instances: UInt64
    var topics: UInt64
    var weight: Int
    /// `defer` or `refuse`.
    var onOverload: String

    init(_ project: ProjectSummary) {
        self.project = project.id
        senderID = project.senderID
        conditionTopicsMax = project.conditionTopicsMax
        instances = project.instanceCount
        topics = project.topicCount
        weight = project.weight
        onOverload =
            switch project.overload {
            case .defer: "defer"
            case .refuse: "refuse"
            }
    }
}

private struct NewProjectAnswer: Encodable {
    var project: String
    var senderID: UInt64
    var conditionTopicsMax: Int
    var instances: UInt64
    var topics: UInt64
    var weight: Int
    /// `defer` or `refuse`.
    var onOverload: String
    /// REG-7: lets devices register. No later answer has it.
    var registrationKey: String

    init(_ new: NewProject) {
        let answer = ProjectAnswer(new.summary)
        project = answer.project
        senderID = answer.senderID
        conditionTopicsMax = answer.conditionTopicsMax
        instances = answer.instances
        topics = answer.topics
        weight = answer.weight
        onOverload = answer.onOverload
        registrationKey = new.registrationKey
    }
}
