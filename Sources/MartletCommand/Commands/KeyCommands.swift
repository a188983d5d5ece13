// SPDX-License-Identifier: Apache-2.0
//
// The commands that keys of every kind have, written once: a new key, printed once and kept nowhere, the list of a
// project's keys, and the end of a key. Rests on DataFolderAccess, Table and JSON.

import ArgumentParser
import Martlet
import MartletAnswers

typealias Administrator = any AdministratorInterface

/// The words and requests of a kind of key.
struct KeyKind<Answer: ListedKeyAnswer> {
    /// What `list` does.
    let listing: String
    let keys: (Administrator, _ project: String) async throws -> [Answer]
    /// What `revoke` or `remove` does to a key.
    let ending: String
    var endingMore = ""
    var endingCommand = "revoke"
    /// What tells a key from others.
    var id: ArgumentHelp
    /// The end of a key in the log of actions, such as `ticket-key.revoke`.
    let action: String
    let end: (Administrator, _ id: String, _ project: String) async throws -> Void
    /// Clears what the folder keeps of a key that has ended.
    var forget: (DataFolderAccess, _ id: String, _ project: String) -> Void = { _, _, _ in }
    /// What was done to what, for people.
    var ended = "Revoked key"
    /// What was done to a key, for machines.
    var endAnswer: (_ id: String) -> any Encodable = { RevokedKeyAnswer(keyID: $0) }
}

/// A command that groups the commands of a kind of key.
protocol KeyKindCommand: AsyncParsableCommand {
    associatedtype Answer: ListedKeyAnswer
    static var kind: KeyKind<Answer> { get }
}

/// A key of a list: an object of the JSON, a row of the table.
protocol ListedKeyAnswer: Encodable {
    static var titles: [String] { get }
    var cells: [String] { get }
}

struct ListKeys<Group: KeyKindCommand>: ReportingCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(commandName: "list", abstract: Group.kind.listing)
    }

    @Option(parsing: .unconditional, help: "The project.")
    var project: String

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let keys = try await folder.access.administrator(of: project) {
            try await Group.kind.keys($0, project)
        }
        if output.json { return JSON.print(keys) }
        var table = Table(columns: Group.Answer.titles.map { ($0, .left) })
        for key in keys { table.add(row: key.cells) }
        Terminal.print(table.text)
    }
}

struct EndKey<Group: KeyKindCommand>: ReportingCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: Group.kind.endingCommand, abstract: Group.kind.ending,
            discussion: Group.kind.endingMore)
    }

    @Argument(help: Group.kind.id)
    var id: String

    @Option(parsing: .unconditional, help: "The project.")
    var project: String

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let (access, kind) = (try folder.access, Group.kind)
        try await access.administrator(of: project) { try await kind.end($0, id, project) }
        access.note(kind.action, id, in: project)
        kind.forget(access, id, project)
        if output.json { return JSON.print(kind.endAnswer(id)) }
        Terminal.print("\(kind.ended) \(id) of project \(project).")
    }
}

/// A kind of key whose text the broker makes.
protocol IssuedKeyCommand: KeyKindCommand {
    static var creating: KeyCreation { get }
}

struct KeyCreation {
    let abstract: String
    var discussion = ""
    let create: (Administrator, _ name: String, _ project: String) async throws -> IssuedKey
    /// What people read beside a new key.
    let note: (_ id: String, _ project: String) -> String
}

struct CreateKey<Group: IssuedKeyCommand>: ReportingCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "create", abstract: Group.creating.abstract,
            discussion: Group.creating.discussion)
    }

    @Option(parsing: .unconditional, help: "The project.")
    var project: String

    @Option(parsing: .unconditional, help: "What people call it.")
    var name = "default"

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func perform() async throws {
        let access = try folder.access
        let key = try await access.administrator(of: project) {
            try await Group.creating.create($0, name, project)
        }
        access.note("\(Group._commandName).create", key.id, in: project)
        if output.json {
            return JSON.print(NewKeyAnswer(project: project, keyID: key.id, key: key.text))
        }
        Terminal.print(key.text)
        Terminal.printError(Group.creating.note(key.id, project))
    }
}

extension KeyAnswer: ListedKeyAnswer {
    static var titles: [String] { ["KEY ID", "NAME", "CREATED", "STATE"] }
    var cells: [String] { [keyID, name, created, state(revoked)] }
}

extension ServiceAccountAnswer: ListedKeyAnswer {
    static var titles: [String] { ["KEY ID", "NAME", "E-MAIL", "CREATED", "STATE"] }
    var cells: [String] { [keyID, name, clientEmail, created, state(revoked)] }
}

extension TicketKeyAnswer: ListedKeyAnswer {
    static var titles: [String] { ["KEY ID", "NAME", "ALGORITHM", "CREATED", "STATE"] }
    var cells: [String] { [keyID, name, algorithm, created, state(revoked)] }
}

private func state(_ revoked: Bool) -> String { revoked ? "revoked" : "valid" }
