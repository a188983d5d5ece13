// SPDX-License-Identifier: Apache-2.0
//
// What commands about keys print: a new key once, a table of keys, and a revocation, or the JSON of each. Property
// names are the names in the JSON output. Rests on Table and JSON.

import Martlet
import MartletAnswers

/// A key of a list.
protocol ListedKeyAnswer: Encodable {
    var keyID: String { get }
    var name: String { get }
    /// Instant of creation, in ISO 8601.
    var created: String { get }
    var revoked: Bool { get }
    /// Title and cell of the column that keys of other kinds lack; nil: the kind has no such column.
    static var ownTitle: String? { get }
    var ownCell: String? { get }
}

extension KeyAnswer: ListedKeyAnswer {
    static var ownTitle: String? { nil }
    var ownCell: String? { nil }
}

extension OutputOptions {
    /// Prints the text of a new key on standard output, and a note on standard error.
    func print(_ key: IssuedKey, of project: String, note: String) {
        if json {
            return JSON.print(NewKeyAnswer(project: project, keyID: key.id, key: key.text))
        }
        Terminal.print(key.text)
        Terminal.printError(note)
    }

    func print<Answer: ListedKeyAnswer>(_ keys: [Answer]) {
        if json { return JSON.print(keys) }
        let own = Answer.ownTitle.map { [$0] } ?? []
        var table = Table(
            columns: (["KEY ID", "NAME"] + own + ["CREATED", "STATE"]).map { ($0, .left) })
        for key in keys {
            let own = key.ownCell.map { [$0] } ?? []
            table.add(
                row: [key.keyID, key.name] + own + [
                    key.created, key.revoked ? "revoked" : "valid",
                ])
        }
        Terminal.print(table.text)
    }

    /// - Parameter kind: the kind of the key in the text, such as `registration key`.
    func printRevoked(_ id: String, of project: String, kind: String = "key") {
        if json { return JSON.print(RevokedKeyAnswer(keyID: id)) }
        Terminal.print("Revoked \(kind) \(id) of project \(project).")
    }
}
