// SPDX-License-Identifier: Apache-2.0
//
// The OpenAPI document of the console's API, made of its routes. Source: OpenAPI Specification 3.1.1. Rests on
// ConsoleRoute.

import Martlet
import MartletAccess
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let documents = [
        ConsoleRoute(
            "openapi", .get, "openapi.json", .anyone, "Describe this interface.",
            answer: "An OpenAPI document, version 3.1."
        ) { _ in .text(OpenAPI.document.text) }
    ]
}

/// The description of the console's API.
enum OpenAPI {
    static let document: JSONValue = {
        var paths: [String: [String: JSONValue]] = [:]
        for route in ConsoleRoute.all {
            paths["/" + ConsoleRoute.prefix + route.path, default: [:]][
                route.method.rawValue.lowercased()] = operation(route)
        }
        return .object([
            "openapi": .string("3.1.0"),
            "info": .object([
                "title": .string("Martlet console"), "version": .string("1"),
                "description": .string(
                    "What the pages of the console read and change. Sign in with POST "
                        + "/console/api/v1/session; each change brings `csrf` of its answer in the header "
                        + "x-martlet-csrf."),
            ]),
            "paths": .object(paths.mapValues { .object($0) }),
            "components": .object([
                "schemas": .object(["Failure": failure]),
                "securitySchemes": .object([
                    "session": .object([
                        "type": .string("apiKey"), "in": .string("cookie"),
                        "name": .string("martlet-console"),
                    ])
                ]),
            ]),
        ])
    }()

    private static let failure: JSONValue = .object([
        "type": .string("object"), "required": .array([.string("error")]),
        "properties": .object([
            "error": .object([
                "type": .string("object"),
                "required": .array([.string("code"), .string("message")]),
                "properties": .object([
                    "code": .object(["type": .string("string")]),
                    "message": .object(["type": .string("string")]),
                    "field": .object(["type": .string("string")]),
                    "byteOffset": .object(["type": .string("integer")]),
                    "retryDelayMilliseconds": .object(["type": .string("integer")]),
                ]),
            ])
        ]),
    ])

    private static func operation(_ route: ConsoleRoute) -> JSONValue {
        var members: [String: JSONValue] = [
            "operationId": .string(route.name), "summary": .string(route.summary),
            "responses": .object([
                "200": .object([
                    "description": .string(route.answer),
                    "content": .object([
                        route.name == "events" ? "text/event-stream" : "application/json": .object(
                            [:])
                    ]),
                ]),
                "default": .object([
                    "description": .string("A refusal, as commands print it with --json."),
                    "content": .object([
                        "application/json": .object([
                            "schema": .object(["$ref": .string("#/components/schemas/Failure")])
                        ])
                    ]),
                ]),
            ]),
        ]
        let parameters =
            route.parameters.map { parameter($0, "path", .string, true, "") }
            + route.query.map { parameter($0.name, "query", $0.kind, $0.isRequired, $0.about) }
        if !parameters.isEmpty { members["parameters"] = .array(parameters) }
        if !route.body.isEmpty {
            members["requestBody"] = .object([
                "required": .bool(route.body.contains { $0.isRequired }),
                "content": .object(["application/json": .object(["schema": body(route.body)])]),
            ])
        }
        switch route.access {
        case .anyone: break
        case .role(let role):
            members["security"] = .array([.object(["session": .array([])])])
            members["x-martlet-role"] = .string(role.rawValue)
        case .everywhere(let role):
            members["security"] = .array([.object(["session": .array([])])])
            members["x-martlet-role"] = .string("\(role.rawValue) of all projects")
        }
        return .object(members)
    }

    private static func parameter(
        _ name: String, _ place: String, _ kind: ConsoleRoute.Field.Kind, _ isRequired: Bool,
        _ about: String
    ) -> JSONValue {
        .object([
            "name": .string(name), "in": .string(place), "required": .bool(isRequired),
            "description": .string(about), "schema": schema(kind),
        ])
    }

    private static func body(_ fields: [ConsoleRoute.Field]) -> JSONValue {
        var properties: [String: JSONValue] = [:]
        for field in fields {
            guard case .object(var schema) = schema(field.kind) else { continue }
            schema["description"] = .string(field.about)
            properties[field.name] = .object(schema)
        }
        return .object([
            "type": .string("object"), "additionalProperties": .bool(false),
            "required": .array(fields.filter(\.isRequired).map { .string($0.name) }),
            "properties": .object(properties),
        ])
    }

    private static func schema(_ kind: ConsoleRoute.Field.Kind) -> JSONValue {
        switch kind {
        case .strings:
            .object([
                "type": .string("array"), "items": .object(["type": .string("string")]),
            ])
        case .string, .integer, .boolean, .object: .object(["type": .string(kind.rawValue)])
        }
    }
}
