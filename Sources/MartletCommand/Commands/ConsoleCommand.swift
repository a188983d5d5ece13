// SPDX-License-Identifier: Apache-2.0
//
// `martlet console`: the people who may use the console, and one-time links (GW-9). The commands change a file of the data
// folder, which a running broker reads again. Rests on MartletAnswers.

import ArgumentParser
import FoundationEssentials
import Glibc
import Martlet
import MartletAnswers
import MartletFiles

struct ConsoleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Say who may use the console, and open it once without a password.",
        discussion: """
            `martlet gateway` serves the console at /console. Changes hold at once, while a broker \
            serves the folder too.
            """, subcommands: [User.self, Link.self])

    struct User: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add, change, list and remove users of the console.",
            subcommands: [Add.self, Password.self, List.self, Remove.self])
    }

    struct Link: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print an address that opens the console once, within an hour.")

        @Option(parsing: .unconditional, help: "Only this project.")
        var project: String?

        @Option(parsing: .unconditional, help: "viewer, sender or administrator.")
        var role = ConsoleRole.administrator

        @Option(
            parsing: .unconditional,
            help: "The gateway's URL, as the browser reaches it (default: of the running gateway).")
        var url: String?

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Answer: Encodable {
            var url: String
        }

        func perform() async throws {
            let access = try folder.access
            let path = try access.existingFolder()
            let served = access.tokenURI.map { String($0.dropLast("/token".count)) }
            guard let url = url ?? served else {
                throw MartletError(
                    .unavailable,
                    "No gateway serves '\(path)'; `martlet gateway` starts one, and --url names one.",
                    field: "url")
            }
            let now = Instant.ofCommand
            let link = try ConsoleAddress(url: url, folder: path).newLink(
                role: role, project: project, at: now)
            try AuditLog(in: path).append(
                .ofCommand("link.open", role.rawValue, in: project, at: now))
            if output.json { return JSON.print(Answer(url: link)) }
            Terminal.print(link)
        }
    }
}

extension ConsoleCommand.User {
    struct Add: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user. The password is read from the terminal or from standard input.")

        @Argument(help: "The user's name: 1 to 64 of a-z, A-Z, 0-9, '.', '_', '@' and '-'.")
        var name: String

        @Option(parsing: .unconditional, help: "viewer, sender or administrator.")
        var role = ConsoleRole.viewer

        @Option(parsing: .unconditional, help: "Only this project (default: all projects).")
        var project: String?

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let path = try folder.access.existingFolder()
            if let project {
                _ = try await folder.access.administrator(of: project) {
                    try await $0.policies(of: project)
                }
            }
            let password = try PasswordInput.read()
            let now = Instant.ofCommand
            let user = try AccessFile(in: path).change { (list) throws(MartletError) in
                try list.add(name, role: role, project: project, password: password, at: now)
                return list.user(name)
            }
            try AuditLog(in: path).append(
                .ofCommand("user.add", "\(name), \(role.rawValue)", in: project, at: now))
            if output.json { return JSON.print(user.map { ConsoleUserAnswer($0) }) }
            Terminal.print("Added \(name), \(role.rawValue) of \(project ?? "all projects").")
        }
    }

    struct Password: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set a user's password. Open sessions of the user end.")

        @Argument(help: "The user's name.")
        var name: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let path = try folder.access.existingFolder()
            let password = try PasswordInput.read()
            let user = try AccessFile(in: path).change { (list) throws(MartletError) in
                try list.setPassword(password, of: name)
                return list.user(name)
            }
            try AuditLog(in: path).append(
                .ofCommand("user.password", name, in: user?.project, at: .ofCommand))
            if output.json { return JSON.print(user.map { ConsoleUserAnswer($0) }) }
            Terminal.print("Changed the password of \(name).")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(abstract: "List the users.")

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let path = try folder.access.existingFolder()
            let users = try AccessFile(in: path).read().users.map { ConsoleUserAnswer($0) }
            if output.json { return JSON.print(users) }
            var table = Table(("USER", .left), ("ROLE", .left), ("PROJECT", .left))
            for user in users { table.add(user.name, user.role.rawValue, user.project ?? "all") }
            Terminal.print(table.text)
        }
    }

    struct Remove: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user. Open sessions of the user end.")

        @Argument(help: "The user's name.")
        var name: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Answer: Encodable {
            var name: String
            var removed = true
        }

        func perform() async throws {
            let path = try folder.access.existingFolder()
            try AccessFile(in: path).change { (list) throws(MartletError) in
                try list.remove(name)
            }
            try AuditLog(in: path).append(.ofCommand("user.remove", name, in: nil, at: .ofCommand))
            if output.json { return JSON.print(Answer(name: name)) }
            Terminal.print("Removed \(name).")
        }
    }
}

struct AuditCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract:
            "Show who did what in the console and by commands, when and from where; the newest first."
    )

    @Option(parsing: .unconditional, help: "Only actions in this project.")
    var project: String?

    @Option(parsing: .unconditional, help: "Actions to list at most, 1 to 1000.")
    var limit = 100

    @Option(
        parsing: .unconditional,
        help: "Go on before the number that another call ended with, 0 or more.")
    var before: UInt64?

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard (1...1000).contains(limit) else {
            throw ValidationError("--limit takes a number from 1 to 1000.")
        }
    }

    func perform() async throws {
        let path = try folder.access.existingFolder()
        let page = AuditLog(in: path).page(project: project, before: before, limit: limit)
        if output.json { return JSON.print(page) }
        var table = Table(
            ("WHEN", .left), ("WHO", .left), ("FROM", .left), ("PROJECT", .left),
            ("ACTION", .left), ("WHAT", .left))
        for entry in page.entries {
            table.add(
                Instant(millisecondsSince1970: entry.at).iso8601, entry.who.withoutControls,
                entry.from, entry.project ?? "-", entry.action, entry.what.withoutControls)
        }
        Terminal.print(table.text)
        if let next = page.next { Terminal.printError("There are more: --before \(next)") }
    }
}

extension ConsoleRole: ExpressibleByArgument {}

/// Reads a password: in a terminal without showing it, twice; elsewhere the first line of standard input.
private enum PasswordInput {
    static func read() throws(MartletError) -> String {
        guard Terminal.isInteractive else {
            // The password of a file, which an editor of another machine may have written.
            guard let line = readLine().map({ EditedText(Array($0.utf8)) })?.lines.first else {
                throw MartletError(
                    .invalidArgument, "Standard input has no password.", field: "password")
            }
            return String(decoding: line, as: UTF8.self)
        }
        let first = hidden("Password: ")
        guard hidden("Again: ") == first else {
            throw MartletError(
                .invalidArgument, "The two passwords differ.", field: "password")
        }
        return first
    }

    private static func hidden(_ prompt: String) -> String {
        Terminal.write(prompt)
        var state = termios()
        tcgetattr(STDIN_FILENO, &state)
        let before = state
        state.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        defer {
            var before = before
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
            Terminal.write("\n")
        }
        return readLine() ?? ""
    }
}
