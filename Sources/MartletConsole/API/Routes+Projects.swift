// SPDX-License-Identifier: Apache-2.0
//
// Projects, their quotas, apps and policies. Rests on the embedding API.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let projects = [
        ConsoleRoute(
            "projects.list", .get, "projects", .role(.viewer), "List the projects.", query: paged,
            answer: "A page of projects, each as `martlet project list --json` prints it.",
            schema: .page(.project)
        ) { call in
            let page: ListPage<ProjectSummary>
            if let own = try call.person.project {
                page = ListPage(entries: [try call.broker.project(own)], next: nil)
            } else {
                page = try await call.broker.projects(after: call.after, limit: try call.limit)
            }
            var answers: [ProjectAnswer] = []
            for project in page.entries {
                answers.append(
                    ProjectAnswer(
                        project, try await call.broker.policies(of: project.id),
                        try await call.broker.limits(of: project.id)))
            }
            return .json(PageAnswer(ListPage(entries: answers, next: page.next)) { $0 })
        },
        ConsoleRoute(
            "projects.create", .post, "projects", .everywhere(.administrator), "Create a project.",
            body: [
                Field("project", .string, isRequired: true, "ID of the project."),
                Field("conditionTopicsMax", .integer, "Topics that a condition may name."),
            ],
            answer: "As `martlet project create --json` prints it. No later answer has the "
                + "registration key.",
            schema: .newProject
        ) { call in
            var call = call
            let id = try call.text("project")
            let topics = try call.number(inBody: "conditionTopicsMax")
            try call.finish()
            let new = try await call.broker.createProject(
                id, conditionTopicsMax: topics)
            try await call.note("project.create", id, in: id)
            return .json(ProjectAnswer(new))
        },
        ConsoleRoute(
            "projects.change", .patch, "projects/{project}", .role(.administrator),
            "Change a project's share, limits and policies. The share, and what happens on overload, concern other "
                + "projects too: they are for administrators of all projects.",
            body: [
                Field("weight", .integer, "Share of the delivery capacity, 1 to 1000."),
                Field("onOverload", .string, "`defer` or `refuse`."),
                Field("conditionTopicsMax", .integer, "Topics that a condition may name."),
                Field("registration", .string, "`key`, `ticket` or `open`."),
                Field("deviceTopics", .string, "`all`, `none`, or prefixes with commas."),
            ], answer: "As `martlet project set --json` prints it.",
            schema: .project
        ) { call in try await changed(call) },
        ConsoleRoute(
            "quotas.list", .get, "projects/{project}/quotas", .role(.viewer),
            "List what is left of the project's quotas.",
            answer: "As `martlet quotas --json` prints it.",
            schema: .list(.quota)
        ) { call in
            .json(try call.broker.quotas(in: call.project).map { QuotaAnswer($0) })
        },
        ConsoleRoute(
            "apps.list", .get, "projects/{project}/apps", .role(.viewer), "List the apps.",
            answer: "As `martlet app list --json` prints it.",
            schema: .list(.app)
        ) { call in
            .json(try await call.broker.apps(in: call.project).map { AppAnswer($0) })
        },
        ConsoleRoute(
            "apps.delete", .delete, "projects/{project}/apps/{platform}/{app}",
            .role(.administrator), "Delete an app with all its instances.",
            answer: "An empty object.",
            schema: .nothing
        ) { call in
            guard let platform = Platform.allCases.first(where: { $0.name == call["platform"] })
            else {
                throw MartletError(
                    .invalidArgument, "A platform is android, apple or web.", field: "platform")
            }
            try await call.broker.deleteApp(call["app"], on: platform, in: call.project)
            try await call.note(
                "app.delete", "\(call["platform"]) \(call["app"])", in: call.project)
            return .done
        },
        ConsoleRoute(
            "fanouts.list", .get, "fanouts", .role(.viewer),
            "List messages on their way to many instances.",
            query: paged + [Field("project", .string, "Only of this project.")],
            answer: "A page of messages, each as `martlet fanouts --json` prints it.",
            schema: .page(.fanout)
        ) { call in
            let person = try call.person
            let project = call.call.parameter("project") ?? person.project
            try person.require(.viewer, in: project)
            let page = try await call.broker.fanouts(
                in: project, after: call.after, limit: try call.limit)
            return .json(PageAnswer(page) { FanoutAnswer($0) })
        },
    ]

    private static func changed(_ call: ConsoleCall) async throws -> ConsoleReply {
        var call = call
        let weight = try call.number(inBody: "weight")
        let topics = try call.number(inBody: "conditionTopicsMax")
        let overload = try call.text(ifThere: "onOverload").map {
            (word) throws(MartletError) -> OverloadPolicy in
            switch word {
            case "defer": return .defer
            case "refuse": return .refuse
            default:
                throw MartletError(
                    .invalidArgument, "It takes `defer` or `refuse`.", field: "onOverload")
            }
        }
        let registration = try call.text(ifThere: "registration").map {
            (word) throws(MartletError) -> RegistrationPolicy in
            guard let policy = RegistrationPolicy.allCases.first(where: { $0.name == word }) else {
                throw MartletError(
                    .invalidArgument, "It takes `key`, `ticket` or `open`.", field: "registration")
            }
            return policy
        }
        // The broker gets two requests, so a wrong prefix must be found before the first.
        let deviceTopics = try call.text(ifThere: "deviceTopics").map {
            (text) throws(MartletError) in try TopicPolicy(text: text).validated()
        }
        try call.finish()
        if weight != nil || overload != nil { try call.person.require(.administrator, in: nil) }
        let summary = try await call.broker.changeProject(
            call.project, weight: weight, overload: overload, conditionTopicsMax: topics)
        if registration != nil || deviceTopics != nil {
            try await call.broker.setPolicies(
                registration: registration, topics: deviceTopics, in: call.project)
        }
        let policies = try await call.broker.policies(of: call.project)
        let changes = [
            weight.map { "weight \($0)" }, topics.map { "condition topics \($0)" },
            overload.map { "on overload \($0)" }, registration.map { "registration \($0.name)" },
            deviceTopics.map { "device topics \($0.text)" },
        ]
        let what = changes.compactMap { $0 }.joined(separator: ", ")
        if !what.isEmpty { try await call.note("project.change", what, in: call.project) }
        return .json(
            ProjectAnswer(summary, policies, try await call.broker.limits(of: call.project)))
    }
}
