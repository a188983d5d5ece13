// SPDX-License-Identifier: Apache-2.0
//
// Compares JSON with a schema of an OpenAPI document. The check knows a few words of JSON Schema, and takes every other
// schema as a fault. Rests on JSONValue.

import Martlet

/// A check with the schemas of a document.
struct SchemaCheck {
    let document: JSONValue

    /// The schema of an operation's answer.
    func answer(_ operation: JSONValue?, _ kind: String = "application/json") -> JSONValue? {
        operation?["responses"]?["200"]?["content"]?[kind]?["schema"]
    }

    /// The schema of an operation's body.
    func body(_ operation: JSONValue?) -> JSONValue? {
        operation?["requestBody"]?["content"]?["application/json"]?["schema"]
    }

    /// Every place where a value differs from a schema.
    func faults(_ value: JSONValue, _ schema: JSONValue?, at path: String = "$") -> [String] {
        guard let schema else { return ["\(path): there is no schema"] }
        if let reference = schema["$ref"]?.string {
            let name = String(reference.split(separator: "/").last ?? "")
            return faults(value, document["components"]?["schemas"]?[name], at: path)
        }
        if case .array(let choices)? = schema["anyOf"] {
            let all = choices.map { faults(value, $0, at: path) }
            return all.contains([]) ? [] : all.flatMap { $0 }
        }
        if case .array(let words)? = schema["enum"], !words.contains(value) {
            return ["\(path): \(value.text) is none of the words"]
        }
        switch (schema["type"]?.string ?? "known kind", value) {
        case ("string", .string), ("boolean", .bool), ("integer", .integer),
            ("number", .integer), ("number", .number):
            return []
        case ("array", .array(let elements)):
            return elements.enumerated().flatMap { index, element in
                faults(element, schema["items"], at: "\(path)[\(index)]")
            }
        case ("object", .object(let members)):
            return faults(of: members, schema, at: path)
        case (let type, _):
            return ["\(path): \(value.text.prefix(80)) is no \(type)"]
        }
    }

    private func faults(
        of members: JSONObject, _ schema: JSONValue, at path: String
    ) -> [String] {
        var found: [String] = []
        if case .array(let required)? = schema["required"] {
            for name in required where members[name.string ?? ""] == nil {
                found.append("\(path): \(name.text) is missing")
            }
        }
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            if let known = schema["properties"]?[name] {
                found += faults(value, known, at: "\(path).\(name)")
            } else if schema["additionalProperties"] == .bool(false) {
                found.append("\(path): nobody knows \(name)")
            } else if let free = schema["additionalProperties"] {
                found += faults(value, free, at: "\(path).\(name)")
            }
        }
        return found
    }
}
