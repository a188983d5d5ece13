// SPDX-License-Identifier: Apache-2.0
//
// Device groups (GW-3): create a group, add or remove members, and find a group's key by name. A faulty request is
// answered with a sentence in `error` and status 400, as known to callers of the interface. Rests on RequestField.

import Martlet

extension Route {
    /// Also at the path from before the name FCM, which Ruby's gem of that name still has.
    static let groups = ["fcm/notification", "gcm/notification"].flatMap { groups(at: $0) }

    private static func groups(at path: String) -> [Route] {
        [
            Route(
                "notification", .post, path, access: .bearerOrKey,
                refusal: { $0.groupAnswer }
            ) { (call, gateway) in
                try call.checkSender()
                let request = try await gateway.reading(call, GroupRequest.init)
                let key = try await request.perform(in: gateway)
                return .json(.object(["notification_key": .string(key)]))
            },
            Route(
                "notification:key", .get, path, access: .bearerOrKey,
                refusal: { $0.groupAnswer }
            ) { (call, gateway) in
                try call.checkSender()
                guard let name = call.parameter("notification_key_name") else {
                    throw GatewayError.invalid(
                        "The parameter notification_key_name is missing.",
                        field: "notification_key_name")
                }
                let group = try gateway.broker.group(
                    named: name, in: try call.identified.projectID)
                return .json(.object(["notification_key": .string(group.key)]))
            },
        ]
    }
}

extension GatewayCall {
    /// Checks the header `project_id`, which names the caller's project by sender ID or by project ID.
    fileprivate func checkSender() throws(GatewayError) {
        guard let sender = header("project_id"), try !identified.isOf(sender) else { return }
        throw GatewayError(
            .permissionDenied,
            "The header project_id names another sender than the credential's.")
    }
}

private struct GroupRequest {
    var operation: String
    /// Name of the group; optional in a request with a key.
    var name: String?
    var key: String?
    var tokens: [String] = []
    var project: String

    init(_ call: GatewayCall) throws(GatewayError) {
        project = try call.identified.projectID
        var body = try RequestObject(body: call.body)
        guard let field = try body.take("operation") else {
            throw GatewayError.invalid("The field operation is missing.", field: "operation")
        }
        operation = try field.text()
        name = try body.take("notification_key_name")?.text()
        key = try body.take("notification_key")?.text()
        guard let list = try body.take("registration_ids") else {
            throw GatewayError.invalid(
                "The field registration_ids is missing.", field: "registration_ids")
        }
        for element in try list.elements() { tokens.append(try element.text()) }
        try body.finish()
    }

    func perform(in gateway: Gateway) async throws -> String {
        let broker = gateway.broker
        switch operation {
        case "create":
            guard let name else {
                throw GatewayError.invalid(
                    "The field notification_key_name is missing.",
                    field: "notification_key_name")
            }
            return try await broker.createGroup(named: name, tokens: tokens, in: project).key
        case "add", "remove":
            guard let key else {
                throw GatewayError.invalid(
                    "The field notification_key is missing.", field: "notification_key")
            }
            guard let name = try name ?? broker.group(key: key, in: project)?.name else {
                throw MartletError(.notFound, "The project has no group of this key.")
            }
            let group =
                operation == "add"
                ? try await broker.addToGroup(
                    named: name, key: key, tokens: tokens, in: project)
                : try await broker.removeFromGroup(
                    named: name, key: key, tokens: tokens, in: project)
            return group.key
        default:
            throw GatewayError.invalid(
                "The operation is create, add or remove.", field: "operation")
        }
    }
}

extension GatewayError {
    /// The refusal as `{"error": "sentence"}`. A fault in the request has status 400.
    fileprivate var groupAnswer: GatewayAnswer {
        let text: String
        switch cause {
        case let error? where error.word == .alreadyExists:
            text = "notification_key already exists"
        case let error? where error.word == .notFound: text = "notification_key not found"
        case let error? where error.field.hasPrefix("tokens["):
            text = "no valid registration ids: \(error.field) \(error.message)"
        case let error?: text = error.message
        case nil: text = message
        }
        let isOfTheRequest =
            [.alreadyExists, .notFound, .permissionDenied].contains(status)
            && cause != nil
        return .json(
            .object(["error": .string(text)]), status: isOfTheRequest ? 400 : httpStatus,
            headers: headers)
    }
}
