// SPDX-License-Identifier: Apache-2.0
//
// `martlet group`: groups of instances, each addressed by a key (GRP-1 to GRP-4). Rests on SenderScope.

import ArgumentParser
import Martlet
import MartletAnswers

struct GroupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "group",
        abstract: "Create, change, show and list groups of at most 20 instances.",
        discussion: "`martlet send --group KEY` sends to all members of a group.",
        subcommands: [Create.self, Add.self, Remove.self, Show.self, List.self])

    struct Create: SenderCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a group, and print its key.")

        @Argument(help: "What it is called; no other group of the project is.")
        var name: String

        @OptionGroup var members: MemberOptions
        @OptionGroup var sender: SenderScope

        func perform() async throws {
            let group = try await sender.ask {
                try await $0.createGroup(named: name, tokens: members.token)
            }
            sender.note("group.create", name)
            if output.json { return JSON.print(GroupAnswer(group)) }
            Terminal.print(group.key)
        }
    }

    struct Add: SenderCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add instances to a group. One that is a member stays one.")

        @OptionGroup var group: GroupOptions
        @OptionGroup var members: MemberOptions
        @OptionGroup var sender: SenderScope

        func perform() async throws {
            let changed = try await sender.ask {
                try await $0.addToGroup(
                    named: group.name, key: group.groupKey, tokens: members.token)
            }
            sender.note(
                "group.add", "\(group.name), \(members.token.count) members")
            GroupAnswer(changed).print(json: output.json)
        }
    }

    struct Remove: SenderCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove instances from a group. It ends with its last member.")

        @OptionGroup var group: GroupOptions
        @OptionGroup var members: MemberOptions
        @OptionGroup var sender: SenderScope

        func perform() async throws {
            let changed = try await sender.ask {
                try await $0.removeFromGroup(
                    named: group.name, key: group.groupKey, tokens: members.token)
            }
            sender.note(
                "group.remove", "\(group.name), \(members.token.count) members")
            GroupAnswer(changed).print(json: output.json)
        }
    }

    struct Show: SenderCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a group's key and its members' tokens.")

        @Argument(help: "The group's name.")
        var name: String

        @OptionGroup var sender: SenderScope

        func perform() async throws {
            let group = try await sender.ask {
                try await $0.group(named: name)
            }
            if output.json { return JSON.print(GroupAnswer(group)) }
            Terminal.print(([group.key] + group.tokens).joined(separator: "\n"))
        }
    }

    struct List: SenderCommand {
        static let configuration = CommandConfiguration(abstract: "List a project's groups.")

        @OptionGroup var sender: SenderScope

        func perform() async throws {
            let groups = try await sender.ask { sender in
                try await allPages("groups") { after in try await sender.groups(after: after) }
            }
            if output.json { return JSON.print(groups.map { GroupEntryAnswer($0) }) }
            var table = Table(("GROUP", .left), ("KEY", .left), ("MEMBERS", .right))
            for group in groups { table.add(group.name, group.key, "\(group.memberCount)") }
            Terminal.print(table.text)
        }
    }
}

/// The option for the instances of a group.
struct MemberOptions: ParsableArguments {
    @Option(
        parsing: .unconditionalSingleValue,
        help: "The registration token of an instance; may be given again.")
    var token: [String] = []
}

/// The options for a group: the name, and the key as proof of the right group.
struct GroupOptions: ParsableArguments {
    @Argument(help: "The group's name.")
    var name: String

    @Option(parsing: .unconditional, help: "The group's key, as `martlet group create` printed it.")
    var groupKey: String
}

extension GroupAnswer {
    fileprivate func print(json: Bool) {
        if json { return JSON.print(self) }
        let members = tokens.count == 1 ? "1 member" : "\(tokens.count) members"
        Terminal.print(
            tokens.isEmpty ? "\(name)  deleted: no member is left" : "\(name)  \(members)")
    }
}
