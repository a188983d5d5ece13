// SPDX-License-Identifier: Apache-2.0
//
// `martlet project`: creates, changes and lists projects. Rests on DataFolderAccess and TopicPolicyArgument.

import ArgumentParser
import Martlet
import MartletAnswers

struct ProjectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "project", abstract: "Create, change and list projects.",
        subcommands: [Create.self, Change.self, List.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(abstract: "Create a project.")

        @Argument(help: "Its ID: 1 to 64 of a-z, 0-9 and '-'.")
        var id: String

        @Option(
            name: .customLong("condition-topics"), parsing: .unconditional,
            help: """
                Distinct topics that one of its conditions may name, 1 to 64, in place of the broker's \
                limit.
                """)
        var conditionTopicsMax: Int?

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard (1...Limits.conditionTopicsCeiling).contains(conditionTopicsMax ?? 1) else {
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
            try folder.access.note("project.create", id, in: id)
            let project = ProjectAnswer(new)
            if output.json { return JSON.print(project) }
            Terminal.print(
                """
                Created project \(project.project), sender ID \(project.senderID), up to \
                \(project.conditionTopicsMax) topics in a condition.
                Registration key \(new.registrationKey)
                """)
        }
    }

    struct Change: ReportingCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Set a project's share, its limits and its rules for devices.",
            discussion: """
                What is not given stays as it is. Holds at once, on every connection. A limit of the project's own stays \
                when the broker's limit changes; '--limit name=broker' gives the project the broker's limit again.
                """)

        @Argument(help: "Its ID.")
        var id: String

        @Option(
            parsing: .unconditional,
            help: "Its share of the delivery capacity beside those of others, 1 to 1000.")
        var weight: Int?

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "What becomes of a message to many when too many are in progress: defer or refuse.",
                valueName: "policy"))
        var onOverload: Overload?

        @Option(
            name: .customLong("condition-topics"), parsing: .unconditional,
            help: "Distinct topics that one of its conditions may name, 1 to 64.")
        var conditionTopicsMax: Int?

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "What a new device must present: key, ticket or open (nothing).",
                valueName: "policy"))
        var registration: Registration?

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "Topics that a device may subscribe itself to: all, none, or those that begin with a "
                    + "prefix of a list with commas.", valueName: "policy"))
        var topics: TopicPolicyArgument?

        @Option(
            name: .customLong("limit"), parsing: .unconditionalSingleValue,
            help: ArgumentHelp(
                "Sets a limit of the project's own, in place of the broker's. Names: "
                    + ProjectLimitSetting.list + ".", valueName: "name=value|broker"))
        var limits: [String] = []

        enum Overload: String, ExpressibleByArgument, CaseIterable {
            case `defer`, refuse

            var policy: OverloadPolicy { self == .defer ? .defer : .refuse }
        }

        enum Registration: String, ExpressibleByArgument, CaseIterable {
            case key, ticket, open

            var policy: RegistrationPolicy {
                switch self {
                case .key: .key
                case .ticket: .ticket
                case .open: .open
                }
            }
        }

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard
                weight != nil || onOverload != nil || conditionTopicsMax != nil || setsPolicies
                    || !limits.isEmpty
            else {
                throw ValidationError(
                    "Give --weight, --on-overload, --condition-topics, --registration, --topics or --limit."
                )
            }
            for text in limits where ProjectLimitSetting(text) == nil {
                throw ValidationError(ProjectLimitSetting.fault(in: text))
            }
            guard (1...Limits.conditionTopicsCeiling).contains(conditionTopicsMax ?? 1) else {
                throw ValidationError(
                    "--condition-topics takes a number from 1 to \(Limits.conditionTopicsCeiling).")
            }
            guard (1...Limits.projectWeightMax).contains(weight ?? 1) else {
                throw ValidationError(
                    "--weight takes a number from 1 to \(Limits.projectWeightMax).")
            }
            // The broker gets several requests, so a wrong prefix must be found before the first.
            do throws(MartletError) { _ = try topics?.policy.validated() } catch {
                throw ValidationError("--topics: \(error.message)")
            }
        }

        /// The changes for the log of actions.
        private var changes: String {
            let named = [
                weight.map { "weight \($0)" },
                conditionTopicsMax.map { "condition topics \($0)" },
                onOverload.map { "on overload \($0.rawValue)" },
                registration.map { "registration \($0.rawValue)" },
                topics.map { "device topics \($0.policy.text)" },
            ]
            return (named.compactMap { $0 } + limits.map { "limit \($0)" })
                .joined(separator: ", ")
        }

        private var setsPolicies: Bool { registration != nil || topics != nil }

        func perform() async throws {
            let project = try await folder.access.administrator(of: id) { administrator in
                if !limits.isEmpty {
                    try await administrator.changeLimits(
                        limits.compactMap { ProjectLimitSetting($0)?.change }, in: id)
                }
                let summary = try await administrator.changeProject(
                    id, weight: weight, overload: onOverload?.policy,
                    conditionTopicsMax: conditionTopicsMax)
                if setsPolicies {
                    try await administrator.setPolicies(
                        registration: registration?.policy, topics: topics?.policy, in: id)
                }
                return ProjectAnswer(
                    summary, try await administrator.policies(of: id),
                    try await administrator.limits(of: id))
            }
            try folder.access.note("project.change", changes, in: id)
            if output.json { return JSON.print(project) }
            Terminal.print(
                "Project \(project.project): weight \(project.weight), on overload "
                    + "\(project.onOverload), up to \(project.conditionTopicsMax) topics in a condition."
            )
            if !limits.isEmpty { Terminal.print("Limits of its own: \(project.ownLimits).") }
            guard setsPolicies else { return }
            Terminal.print(
                "Registration: \(project.registration). Topics that devices choose: "
                    + "\(project.deviceTopics).")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(abstract: "List the projects.")

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let projects = try await folder.access.administrator { administrator in
                let summaries = try await allPages("projects") {
                    try await administrator.projects(after: $0)
                }
                var projects: [ProjectAnswer] = []
                for summary in summaries {
                    projects.append(
                        ProjectAnswer(
                            summary, try await administrator.policies(of: summary.id),
                            try await administrator.limits(of: summary.id)))
                }
                return projects
            }
            if output.json { return JSON.print(projects) }
            var table = Table(
                ("PROJECT", .left), ("SENDER ID", .right), ("INSTANCES", .right),
                ("TOPICS", .right), ("TOPICS PER CONDITION", .right), ("WEIGHT", .right),
                ("ON OVERLOAD", .left), ("REGISTRATION", .left), ("DEVICE TOPICS", .left),
                ("OWN LIMITS", .left))
            for project in projects {
                table.add(
                    project.project, "\(project.senderID)", "\(project.instances)",
                    "\(project.topics)", "\(project.conditionTopicsMax)", "\(project.weight)",
                    project.onOverload, project.registration, project.deviceTopics,
                    project.ownLimits)
            }
            Terminal.print(table.text)
        }
    }
}
