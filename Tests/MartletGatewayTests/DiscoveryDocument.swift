// SPDX-License-Identifier: Apache-2.0
//
// The discovery document of v1 that google-api-python-client brings: every field that a request can
// have, and a value for it. Rests on JSONValue.

import Foundation
import MartletBase
import MartletGateway
import Testing

/// The schemas of v1.
struct DiscoveryDocument {
    /// nil before the clients are installed.
    static let file = PythonClients.sitePackages?
        .appending(path: "googleapiclient/discovery_cache/documents/fcm.v1.json")

    /// A field by its way from the request down.
    struct Field {
        var path: [String]
        var value: String

        /// A request that has this field, and a target if it is none.
        func body(camel: Bool, suffix: String = "") -> String {
            var names = path.map { camel ? $0 : snakeCase($0) }
            names[names.count - 1] += suffix
            var value = value
            // Texts to fill in do not stand alone.
            if let name = names.last, name.lowercased().hasSuffix("args") {
                let key = name.dropLast(4) + (camel ? "Key" : "key")
                value += ",\"\(key)\":\"t\""
            }
            let inner = names.reversed().reduce(value) { "{\"\($1)\":\($0)}" }
            let isTarget = ["token", "fid", "topic", "condition"].contains(path[1...].first ?? "")
            guard path[0] == "message", !isTarget || !suffix.isEmpty else {
                return path[0] == "message"
                    ? inner : "{\"message\":{\"token\":\"t\"},\(inner.dropFirst())"
            }
            return inner.replacing(
                "{\"message\":{", with: "{\"message\":{\"token\":\"t\",", maxReplacements: 1)
        }

        private func snakeCase(_ name: String) -> String {
            name.reduce(into: "") { $0 += $1.isUppercase ? "_\($1.lowercased())" : "\($1)" }
        }
    }

    /// Values whose form is looked at.
    private static let checked = [
        "color": "\"#aabbcc\"", "link": "\"https://x\"", "payload": "{\"aps\":{}}",
    ]
    private let schemas: JSONValue

    init() throws {
        let text = try String(contentsOf: try #require(Self.file), encoding: .utf8)
        schemas = try #require(try JSONValue(parsing: text)["schemas"])
    }

    /// The ends of all ways through a schema.
    func fields(of schema: String, at path: [String] = []) -> [Field] {
        guard case .object(let properties)? = schemas[schema]?["properties"] else {
            return [Field(path: path, value: "{}")]
        }
        return properties.sorted { $0.key < $1.key }.flatMap { name, property in
            if let inner = property["$ref"]?.string {
                return fields(of: inner, at: path + [name])
            }
            return [Field(path: path + [name], value: Self.checked[name] ?? value(property))]
        }
    }

    private func value(_ property: JSONValue) -> String {
        if case .array(let names)? = property["enum"], let name = names.last { return name.text }
        switch (property["type"]?.string, property["format"]?.string) {
        case (_, "google-duration"): return "\"3.5s\""
        case (_, "google-datetime"): return "\"2026-01-02T03:04:05.000678Z\""
        case ("boolean", _): return "true"
        case ("integer", _), ("number", _): return "1"
        case ("array", _): return "[\(property["items"].map { value($0) } ?? "")]"
        case ("object", _): return "{\"k\":\"v\"}"
        default: return "\"t\""
        }
    }
}
