// SPDX-License-Identifier: Apache-2.0
//
// The users of the console, and the log of their actions (GW-9). Rests on People and AuditLog.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let people = [
        ConsoleRoute(
            "users.list", .get, "users", .everywhere(.administrator), "List the users.",
            answer: "As `martlet console user list --json` prints it.",
            schema: .list(.user)
        ) { call in .json(try call.console.people.list().users.map { ConsoleUserAnswer($0) }) },
        ConsoleRoute(
            "users.create", .post, "users", .everywhere(.administrator), "Add a user.",
            body: [
                Field("name", .string, isRequired: true, "1 to 64 characters."),
                Field("password", .string, isRequired: true, "8 to 256 bytes."),
                Field("role", .string, isRequired: true, "`viewer`, `sender` or `administrator`."),
                Field("project", .string, "The only project of the user."),
            ], answer: "As an entry of `martlet console user list --json`.",
            schema: .user
        ) { call in
            var call = call
            let name = try call.text("name")
            let password = try call.text("password")
            let word = try call.text("role")
            let project = try call.text(ifThere: "project")
            try call.finish()
            guard let role = ConsoleRole(rawValue: word) else {
                throw MartletError(
                    .invalidArgument, "A role is viewer, sender or administrator.", field: "role")
            }
            if let project { _ = try call.broker.project(project) }
            let now = call.broker.now
            let user = try call.console.people.file.change {
                (list) throws(MartletError) in
                try list.add(name, role: role, project: project, password: password, at: now)
                return list.user(name)
            }
            try await call.note("user.add", "\(name), \(word)", in: project)
            return .json(user.map { ConsoleUserAnswer($0) })
        },
        ConsoleRoute(
            "users.remove", .delete, "users/{name}", .everywhere(.administrator),
            "Remove a user, and end the user's sessions.", answer: "An empty object.",
            schema: .nothing
        ) { call in
            let name = call["name"]
            try call.console.people.file.change { (list) throws(MartletError) in
                try list.remove(name)
            }
            try await call.note("user.remove", name, in: nil)
            return .done
        },
        ConsoleRoute(
            "log.list", .get, "log", .role(.administrator),
            "List the actions of users, the newest first.",
            query: logPage, answer: "As `martlet audit --json` prints it.",
            schema: .log
        ) { call in
            let before = try call.number("before").map { UInt64(clamping: $0) }
            return .json(
                call.console.actions(
                    in: try call.person.project, before: before, limit: try call.logLimit))
        },
    ]
}
