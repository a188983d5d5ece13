// SPDX-License-Identifier: Apache-2.0
//
// Takes the fields of a JSON object one by one, each by either of its spellings, and refuses the remaining fields.
// Rests on JSONValue and SharedFields.

import Martlet

/// A value and its path in the object.
struct JSONField: MessageField {
    var value: JSONValue
    var path: String

    func text() throws(MartletError) -> String {
        guard case .string(let text) = value else {
            throw refusal("It takes a string in double quotes.")
        }
        return text
    }

    func flag() throws(MartletError) -> Bool {
        guard case .bool(let flag) = value else { throw refusal("It takes true or false.") }
        return flag
    }

    /// A flag as Apple writes flags, 1 or 0; true and false are accepted too.
    func mark() throws(MartletError) -> Bool {
        switch value {
        case .integer(1), .bool(true): true
        case .integer(0), .bool(false): false
        default: throw refusal("It takes 1.")
        }
    }

    func number() throws(MartletError) -> UInt32 {
        guard case .integer(let number) = value, let number = UInt32(exactly: number) else {
            throw refusal("It takes a whole number.")
        }
        return number
    }

    func fields() throws(MartletError) -> JSONFields { try JSONFields(value, path) }

    /// The entries of a map of texts.
    func entries() throws(MartletError) -> [Message.DataEntry] {
        var fields = try fields()
        var entries: [Message.DataEntry] = []
        for field in fields.rest() {
            entries.append(.init(key: field.name, value: try field.field.text()))
        }
        return entries
    }

    func refusal(_ message: String) -> MartletError {
        MartletError(.invalidArgument, message, field: path)
    }
}

struct JSONFields: MessageObject {
    private var members: [String: JSONValue]
    var path: String

    init(_ value: JSONValue, _ path: String) throws(MartletError) {
        guard case .object(let members) = value else {
            throw MartletError(
                .invalidArgument, "It takes an object, {\"…\": …}.", field: path)
        }
        self.members = members
        self.path = path
    }

    private func place(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    /// Takes a member by its name in snake_case or lowerCamelCase.
    mutating func take(_ name: String) -> JSONField? {
        for spelling in [name, name.inCamelCase] {
            if let value = members.removeValue(forKey: spelling) {
                return JSONField(value: value, path: place(spelling))
            }
        }
        return nil
    }

    /// Takes all remaining members, in the order of names.
    mutating func rest() -> [(name: String, field: JSONField)] {
        defer { members = [:] }
        return members.sorted { $0.key < $1.key }
            .map { ($0.key, JSONField(value: $0.value, path: place($0.key))) }
    }

    func finish(among names: [String]) throws(MartletError) {
        guard let unknown = members.keys.min() else { return }
        throw MartletError(
            .invalidArgument,
            "There is no such field here; there are \(names.joined(separator: ", ")).",
            field: place(unknown))
    }

    /// Takes the remaining members of a notification: texts unchanged, other values as JSON.
    mutating func options() -> [Message.DataEntry] {
        rest().map { .init(key: $0.name, value: $0.field.value.plainText) }
    }
}
