// SPDX-License-Identifier: Apache-2.0
//
// Senders change and read subscriptions (GW-2, TOP-4) through the instance ID interface, used by every Admin SDK. A
// refusal is a word in `error`, not an envelope. Rests on RequestField.

import Martlet

extension Route {
    static let instanceTopics = [
        instanceTopic("iid:batchAdd", .post, "iid/v1:batchAdd") { (call, gateway) in
            try await gateway.reading(call, TopicBatch.init).change(.subscribe, in: gateway)
        },
        instanceTopic("iid:batchRemove", .post, "iid/v1:batchRemove") { (call, gateway) in
            try await gateway.reading(call, TopicBatch.init).change(.unsubscribe, in: gateway)
        },
        instanceTopic("iid:batchImport", .post, "iid/v1:batchImport") { (call, gateway) in
            try await gateway.reading(call, AppleImport.init).run(in: gateway)
        },
        instanceTopic("iid/topics:add", .post, "iid/v1/{token}/rel/topics/{topic}") {
            (call, gateway) in
            try await changeOne(.subscribe, call, gateway)
        },
        instanceTopic("iid/topics:remove", .delete, "iid/v1/{token}/rel/topics/{topic}") {
            (call, gateway) in
            try await changeOne(.unsubscribe, call, gateway)
        },
        information("iid/info/{token}"),
        // kreait/firebase-php asks without `info`, and takes a 404 for a dead token.
        information("iid/{token}"),
    ]

    private static func information(_ pattern: String) -> Route {
        instanceTopic("iid/info", .get, pattern) { (call, gateway) in
            try InstanceInformation(call, gateway).answer
        }
    }

    private static func instanceTopic(
        _ name: String, _ method: GatewayCall.Method, _ pattern: String,
        handler: @escaping Handler
    ) -> Route {
        Route(
            name, method, pattern, access: .bearerOrKey, refusal: { $0.instanceAnswer },
            handler: handler)
    }

    private static func changeOne(
        _ operation: TopicOperation, _ call: GatewayCall, _ gateway: Gateway
    ) async throws -> GatewayAnswer {
        let project = try call.identified.projectID
        let result = try await gateway.broker.change(
            operation, [call["token"]], topic: call["topic"], in: project)
        if let failure = result.failures.first { throw GatewayError(token: failure.word) }
        return .json(.object([:]))
    }
}

/// The body of a batch: `{"to": "/topics/NAME", "registration_tokens": […]}`.
private struct TopicBatch {
    var topic: String
    var tokens: [String]
    var project: String

    init(_ call: GatewayCall) throws(GatewayError) {
        project = try call.identified.projectID
        var body = try RequestObject(body: call.body)
        guard let to = try body.take("to") else {
            throw GatewayError.invalid("The field to is missing.", field: "to")
        }
        topic = try to.text()
        guard let list = try body.take("registration_tokens") else {
            throw GatewayError.invalid(
                "The field registration_tokens is missing.", field: "registration_tokens")
        }
        tokens = []
        for element in try list.elements() { tokens.append(try element.text()) }
        try body.finish()
    }

    func change(
        _ operation: TopicOperation, in gateway: Gateway
    ) async throws -> GatewayAnswer {
        let summary = try await gateway.broker.change(
            operation, tokens, topic: topic, in: project)
        var results = [JSONValue](repeating: .object([:]), count: tokens.count)
        for failure in summary.failures {
            results[failure.index] = .object(["error": .string(failure.word.instanceWord)])
        }
        return .json(.object(["results": .array(results)]))
    }
}

/// Information about an instance. A subscription has no date, because the broker does not keep the date.
private struct InstanceInformation {
    var answer: GatewayAnswer

    init(_ call: GatewayCall, _ gateway: Gateway) throws {
        let caller = try call.identified
        let instance = try gateway.broker.instance(call["token"], in: caller.projectID)
        var members: JSONObject = [
            "application": .string(instance.app),
            "authorizedEntity": .string(String(caller.senderID)),
            "platform": .string(Self.name(instance.platform)),
        ]
        if call.parameter("details") == "true" {
            let topics = try gateway.broker.allTopics(of: call["token"], in: caller.projectID)
            if !topics.isEmpty {
                let named = JSONObject(topics.map { ($0, .object([:])) })
                members["rel"] = .object(["topics": .object(named)])
            }
        }
        answer = .json(.object(members))
    }

    private static func name(_ platform: Platform) -> String {
        switch platform {
        case .android: "ANDROID"
        case .apple: "IOS"
        case .web: "CHROME"
        }
    }
}

extension Broker {
    func change(
        _ operation: TopicOperation, _ tokens: [String], topic: String, in project: String
    ) async throws(MartletError) -> TopicChangeSummary {
        switch operation {
        case .subscribe: try await subscribe(tokens, to: topic, in: project)
        case .unsubscribe: try await unsubscribe(tokens, from: topic, in: project)
        }
    }

    /// All topics of an instance, in the order of names: at most 2000 (TOP-3).
    func allTopics(of token: String, in project: String) throws(MartletError) -> [String] {
        var names: [String] = []
        var after: String? = ""
        while let start = after {
            let page = try topics(
                of: token, in: project, after: start, limit: Limits.pageEntriesMax)
            names += page.entries.map(\.name)
            after = page.next
        }
        return names
    }
}

// MARK: Refusals

extension ErrorWord {
    /// The outcome for a token, in the words of the instance ID interface.
    var instanceWord: String {
        switch self {
        case .notFound, .unregistered: "NOT_FOUND"
        case .invalidArgument: "INVALID_ARGUMENT"
        case .tooManyTopics: "TOO_MANY_TOPICS"
        case .resourceExhausted, .quotaExceeded: "RESOURCE_EXHAUSTED"
        case .permissionDenied, .senderIDMismatch: "PERMISSION_DENIED"
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        case .internal, .unavailable: "INTERNAL"
        default: "UNKNOWN"
        }
    }
}

extension GatewayError {
    /// The refusal of a call that names a single token.
    init(token word: ErrorWord) {
        switch word {
        case .tooManyTopics:
            self.init(MartletError(word, "The instance has as many topics as it may."))
        case .invalidArgument:
            self.init(MartletError(word, "This is not a registration token.", field: "token"))
        case .notFound, .unregistered:
            self.init(.notFound, "The token is not registered in this project.")
        case .senderIDMismatch:
            self.init(.permissionDenied, "The token belongs to another project.")
        default: self.init(MartletError(word, "The subscription could not be changed."))
        }
    }

    /// The refusal as `{"error": "WORD", "message": "sentence"}`.
    var instanceAnswer: GatewayAnswer {
        let word = cause?.word == .tooManyTopics ? "TOO_MANY_TOPICS" : status.rawValue
        return .json(
            .object(["error": .string(word), "message": .string(cause?.message ?? message)]),
            status: httpStatus, headers: headers)
    }
}
