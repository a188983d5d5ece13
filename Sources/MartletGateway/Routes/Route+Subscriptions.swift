// SPDX-License-Identifier: Apache-2.0
//
// `topicSubscriptions` of v1 (GW-2): the subscriptions of a registration as resources. A resource has no
// `createTime`, because the time of a subscription is not kept. Rests on Route+Topics and GatewayCall+Pages.

import Martlet

extension Route {
    static let subscriptions = [
        Route("topicSubscriptions.create", .post, collection) { (call, gateway) in
            try await Subscription.create(call, gateway)
        },
        Route("topicSubscriptions.list", .get, collection) { (call, gateway) in
            try Subscription.list(call, gateway)
        },
        Route("topicSubscriptions.get", .get, collection + "/{topic}") { (call, gateway) in
            let found = try Subscription(call)
            guard try found.exists(in: gateway) else { throw found.missing }
            return .json(found.resource)
        },
        Route("topicSubscriptions.patch", .patch, collection + "/{topic}") { (call, gateway) in
            try await Subscription.patch(call, gateway)
        },
        Route("topicSubscriptions.delete", .delete, collection + "/{topic}") {
            (call, gateway) in
            let found = try Subscription(call)
            if try !found.exists(in: gateway), !call.allowsMissing { throw found.missing }
            try await found.change(.unsubscribe, in: gateway)
            return .json(.object([:]))
        },
        change("topicSubscriptions:subscribe", .subscribe, verb: "subscribe"),
        change("topicSubscriptions:unsubscribe", .unsubscribe, verb: "unsubscribe"),
    ]

    /// A change as the SDKs of devices ask for it: it succeeds too if there is nothing to change.
    private static func change(
        _ name: String, _ operation: TopicOperation, verb: String
    ) -> Route {
        Route(name, .post, collection + "/{topic}:" + verb) { (call, gateway) in
            try await Subscription(call).change(operation, in: gateway)
            return .json(.object([:]))
        }
    }

    private static let collection =
        "v1/projects/{project}/registrations/{registration}/topicSubscriptions"
}

/// A subscription: a registration and a topic.
private struct Subscription {
    private static let pageDefault = 1000
    private static let pageMax = 2000

    var project: String
    /// Name of the registration, with the project as the caller wrote it: by ID or number.
    var parent: String
    var token: String
    var topic: String

    init(_ call: GatewayCall, topic: String? = nil) throws(GatewayError) {
        project = try call.identified.projectID
        token = call["registration"]
        parent = "projects/\(call["project"])/registrations/\(token)"
        do throws(MartletError) {
            self.topic = try TopicName(validating: topic ?? call["topic"]).text
        } catch {
            var refusal = GatewayError(
                .invalidArgument, "Topic name contains invalid characters.",
                violations: [.init("topic_name", error.message)], cause: error)
            refusal.isCounted = false
            throw refusal
        }
    }

    var resource: JSONValue {
        .object([
            "name": .string("\(parent)/topicSubscriptions/\(topic)"), "topicName": .string(topic),
        ])
    }

    var missing: GatewayError {
        GatewayError(.notFound, "The registration is not subscribed to this topic.")
    }

    /// Whether the registration is subscribed to the topic.
    /// - Throws: also for an unknown registration.
    func exists(in gateway: Gateway) throws -> Bool {
        try gateway.broker.allTopics(of: token, in: project).contains(topic)
    }

    func change(_ operation: TopicOperation, in gateway: Gateway) async throws {
        let result = try await gateway.broker.change(
            operation, [token], topic: topic, in: project)
        if let failure = result.failures.first { throw GatewayError(token: failure.word) }
    }

    static func create(_ call: GatewayCall, _ gateway: Gateway) async throws -> GatewayAnswer {
        let said = try await gateway.reading(call, topicName)
        guard let name = call.parameter("topicName") ?? call.parameter("topic_name") ?? said
        else {
            throw GatewayError(
                .invalidArgument, "The parameter topicName is missing.",
                violations: [.init("topic_name", "It is required.")])
        }
        let new = try Subscription(call, topic: name)
        guard try !new.exists(in: gateway) else {
            throw GatewayError(.alreadyExists, "Requested entity already exists")
        }
        try await new.change(.subscribe, in: gateway)
        return .json(new.resource)
    }

    static func patch(_ call: GatewayCall, _ gateway: Gateway) async throws -> GatewayAnswer {
        _ = try await gateway.reading(call, topicName)
        let found = try Subscription(call)
        if try !found.exists(in: gateway) {
            guard call.allowsMissing else { throw found.missing }
            try await found.change(.subscribe, in: gateway)
        }
        return .json(found.resource)
    }

    /// The topic's name in a body with a `TopicSubscription`. The other fields are checked and ignored.
    private static func topicName(_ call: GatewayCall) throws(GatewayError) -> String? {
        var body = try RequestObject(body: call.body)
        _ = try body.take("name")?.text()
        _ = try body.take("create_time")?.text()
        let name = try body.take("topic_name")?.text()
        try body.finish()
        return name
    }

    static func list(_ call: GatewayCall, _ gateway: Gateway) throws -> GatewayAnswer {
        let size = try call.pageSize(default: pageDefault, max: pageMax)
        let start = try call.pageStart
        let token = call["registration"]
        var names = try gateway.broker.allTopics(of: token, in: try call.identified.projectID)
        names.removeAll { $0.utf8.lexicographicallyPrecedes(start.utf8) || $0 == start }
        var members = JSONObject()
        let page = names.prefix(size)
        if !page.isEmpty {
            members["topicSubscriptions"] = .array(
                try page.map { (name) throws(GatewayError) in
                    try Subscription(call, topic: name).resource
                })
        }
        if names.count > size, let last = page.last {
            members["nextPageToken"] = GatewayCall.pageToken(last)
        }
        return .json(.object(members))
    }
}

extension GatewayCall {
    fileprivate var allowsMissing: Bool {
        (parameter("allowMissing") ?? parameter("allow_missing")) == "true"
    }
}
