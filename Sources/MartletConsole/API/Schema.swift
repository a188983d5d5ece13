// SPDX-License-Identifier: Apache-2.0
//
// The shape of JSON, as the OpenAPI document tells it: the part of JSON Schema that the console's interface needs. Source:
// JSON Schema draft 2020-12, OpenAPI Specification 3.1.1. Pure.

import Martlet

/// The shape of a JSON value.
package indirect enum Schema: Sendable, Hashable {
    case string, integer, number, boolean
    /// Any object.
    case anything
    /// One of several texts.
    case words([String])
    case list(Schema)
    /// An object with free names.
    case map(Schema)
    /// An object with these members and no others.
    case members([Member])
    /// One of several shapes.
    case either([Schema])
    /// A shape with a name of its own in the document.
    case named(String, Schema)

    /// A member of an object.
    package struct Member: Sendable, Hashable {
        var name: String
        var schema: Schema
        var isRequired: Bool
        var about: String?
    }

    /// An object. The name of a member that may be missing ends with `?`.
    static func object(_ members: KeyValuePairs<String, Schema>) -> Schema {
        .members(
            members.map { name, schema in
                let isRequired = name.last != "?"
                return Member(
                    name: isRequired ? name : String(name.dropLast()), schema: schema,
                    isRequired: isRequired)
            })
    }

    /// A page of a list.
    static func page(_ entry: Schema) -> Schema {
        .object(["entries": .list(entry), "next?": .string])
    }

    /// An object without members.
    static let nothing = Schema.object([:])

    // MARK: JSON

    /// The schema as JSON. A shape with a name is a reference to the components of the document.
    var json: JSONValue {
        switch self {
        case .string: Self.ofType("string")
        case .integer: Self.ofType("integer")
        case .number: Self.ofType("number")
        case .boolean: Self.ofType("boolean")
        case .anything: Self.ofType("object")
        case .words(let words):
            .object(["type": .string("string"), "enum": .array(words.map { .string($0) })])
        case .list(let element):
            .object(["type": .string("array"), "items": element.json])
        case .map(let value):
            .object(["type": .string("object"), "additionalProperties": value.json])
        case .members(let members):
            .object([
                "type": .string("object"), "additionalProperties": .bool(false),
                "required": .array(members.filter(\.isRequired).map { .string($0.name) }),
                "properties": .object(JSONObject(members.map { ($0.name, $0.json) })),
            ])
        case .either(let schemas): .object(["anyOf": .array(schemas.map(\.json))])
        case .named(let name, _):
            .object(["$ref": .string("#/components/schemas/" + name)])
        }
    }

    private static func ofType(_ name: String) -> JSONValue { .object(["type": .string(name)]) }

    /// The shapes with names in the schema, by their names.
    var components: [String: Schema] {
        switch self {
        case .string, .integer, .number, .boolean, .anything, .words: [:]
        case .list(let inner), .map(let inner): inner.components
        case .members(let members): Self.components(of: members.map(\.schema))
        case .either(let schemas): Self.components(of: schemas)
        case .named(let name, let inner):
            inner.components.merging([name: inner]) { first, _ in first }
        }
    }

    static func components(of schemas: [Schema]) -> [String: Schema] {
        schemas.reduce(into: [:]) { all, schema in
            all.merge(schema.components) { first, second in
                precondition(first == second, "A name in the document has one schema.")
                return first
            }
        }
    }
}

extension Schema.Member {
    fileprivate var json: JSONValue {
        guard let about, case .object(var members) = schema.json else { return schema.json }
        members["description"] = .string(about)
        return .object(members)
    }
}
