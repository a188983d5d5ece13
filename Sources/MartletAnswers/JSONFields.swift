// SPDX-License-Identifier: Apache-2.0
//
// Takes the fields of a JSON object one by one, each by either of its spellings, and refuses the remaining fields.
// Rests on JSONValue and SharedFields.

package import Martlet

/// A value and its path in the object.
package struct JSONField: MessageField {
    package var value: JSONValue
    package var path: String

    package init(value: JSONValue, path: String) {
        self.value = value
        self.path = path
    }

    package func text() throws(MartletError) -> String {
        guard case .string(let text) = value else {
            throw refusal("It takes a string in double quotes.")
        }
        return text
    }

    package func flag() throws(MartletError) -> Bool {
        guard case .bool(let flag) = value else { throw refusal("It takes true or false.") }
        return flag
    }

    /// A flag as Apple writes flags, 1 or 0; true and false are accepted too.
    package func mark() throws(MartletError) -> Bool {
        switch (value, value.wholeNumber) {
        case (_, 1), (.bool(true), _): true
        case (_, 0), (.bool(false), _): false
        default: throw refusal("It takes 1.")
        }
    }

    package func number() throws(MartletError) -> UInt32 {
        guard let number = value.wholeNumber.flatMap({ UInt32(exactly: $0) }) else {
            throw refusal("It takes a whole number.")
        }
        return number
    }

    package func fields() throws(MartletError) -> JSONFields { try JSONFields(value, path) }

    /// The entries of a map of texts.
    package func entries() throws(MartletError) -> [Message.DataEntry] {
        var fields = try fields()
        var entries: [Message.DataEntry] = []
        for field in fields.rest() {
            entries.append(.init(key: field.name, value: try field.field.text()))
        }
        return entries
    }

    package func refusal(_ message: String) -> MartletError {
        MartletError(.invalidArgument, message, field: path)
    }
}

package struct JSONFields: MessageObject {
    private var members: JSONObject
    package var path: String

    /// An object without members.
    package init() { (members, path) = (JSONObject(), "") }

    package init(_ value: JSONValue, _ path: String) throws(MartletError) {
        guard case .object(let members) = value else {
            throw MartletError(
                .invalidArgument, "It takes an object, {\"…\": …}.", field: path)
        }
        self.members = members
        self.path = path
    }

    private func place(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    /// Takes a member by its name in snake_case or lowerCamelCase.
    package mutating func take(_ name: String) -> JSONField? {
        for spelling in [name, name.inCamelCase] {
            if let value = members.removeValue(forKey: spelling) {
                return JSONField(value: value, path: place(spelling))
            }
        }
        return nil
    }

    /// Takes all remaining members, in the order of names.
    package mutating func rest() -> [(name: String, field: JSONField)] {
        defer { members = JSONObject() }
        return members.map { ($0.key, JSONField(value: $0.value, path: place($0.key))) }
    }

    package func finish(among names: [String]) throws(MartletError) {
        guard let unknown = members.names.first else { return }
        throw MartletError(
            .invalidArgument,
            "There is no such field here; there are \(names.joined(separator: ", ")).",
            field: place(unknown))
    }

    /// Takes the remaining members of a notification: texts unchanged, other values as JSON.
    package mutating func options() -> [Message.DataEntry] {
        rest().map { .init(key: $0.name, value: $0.field.value.plainText) }
    }
}
