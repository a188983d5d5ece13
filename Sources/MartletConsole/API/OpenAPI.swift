// SPDX-License-Identifier: Apache-2.0
//
// The OpenAPI document of the console's API, made of its routes. Source: OpenAPI Specification 3.1.1. Rests on
// ConsoleRoute.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let documents = [
        ConsoleRoute(
            "openapi", .get, "openapi.json", .anyone, "Describe this interface.",
            answer: "An OpenAPI document, version 3.1.",
            schema: .anything
        ) { call in .text(call.console.openAPI) }
    ]
}

/// The description of the console's API.
enum OpenAPI {
    /// - Parameter cookie: name of the session's cookie.
    static func document(cookie: String) -> JSONValue {
        var paths: [String: JSONObject] = [:]
        for route in ConsoleRoute.all {
            paths["/" + ConsoleRoute.prefix + route.path, default: JSONObject()][
                route.method.rawValue.lowercased()] = operation(route)
        }
        return .object([
            "openapi": .string("3.1.0"),
            "info": .object([
                "title": .string("Martlet console"), "version": .string("1"),
                "description": .string(
                    "What the pages of the console read and change. Sign in with POST "
                        + "/console/api/v1/session; each change brings `csrf` of its answer in the header "
                        + "x-martlet-csrf. A call with the header x-martlet-background does not prolong "
                        + "the session."),
            ]),
            "paths": .object(JSONObject(paths.map { ($0.key, .object($0.value)) })),
            "components": .object([
                "schemas": .object(components),
                "securitySchemes": .object([
                    "session": .object([
                        "type": .string("apiKey"), "in": .string("cookie"),
                        "name": .string(cookie),
                    ])
                ]),
            ]),
        ])
    }

    /// The shapes with names, those of all requests, answers and events.
    private static let components: JSONObject = {
        var schemas = [Schema.failure]
        for event in Schema.events { schemas.append(event.schema) }
        for route in ConsoleRoute.all {
            schemas.append(route.schema)
            schemas += route.body.map(\.schema)
        }
        return JSONObject(Schema.components(of: schemas).map { ($0.key, $0.value.json) })
    }()

    private static func content(_ route: ConsoleRoute) -> JSONValue {
        guard route.name == "events" else {
            return .object(["application/json": .object(["schema": route.schema.json])])
        }
        return .object([
            "text/event-stream": .object([
                "schema": Schema.string.json,
                "x-martlet-events": .object(
                    JSONObject(Schema.events.map { ($0.name, $0.schema.json) })),
            ])
        ])
    }

    private static func operation(_ route: ConsoleRoute) -> JSONValue {
        var members: JSONObject = [
            "operationId": .string(route.name), "summary": .string(route.summary),
            "responses": .object([
                "200": .object([
                    "description": .string(route.answer), "content": content(route),
                ]),
                "default": .object([
                    "description": .string("A refusal, as commands print it with --json."),
                    "content": .object([
                        "application/json": .object(["schema": Schema.failure.json])
                    ]),
                ]),
            ]),
        ]
        let parameters =
            route.parameters.map { parameter($0, "path", .string, true, "") }
            + route.query.map { parameter($0.name, "query", $0.schema, $0.isRequired, $0.about) }
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
        _ name: String, _ place: String, _ schema: Schema, _ isRequired: Bool,
        _ about: String
    ) -> JSONValue {
        .object([
            "name": .string(name), "in": .string(place), "required": .bool(isRequired),
            "description": .string(about), "schema": schema.json,
        ])
    }

    private static func body(_ fields: [ConsoleRoute.Field]) -> JSONValue {
        Schema.members(
            fields.map {
                Schema.Member(
                    name: $0.name, schema: $0.schema, isRequired: $0.isRequired, about: $0.about)
            }
        ).json
    }
}
