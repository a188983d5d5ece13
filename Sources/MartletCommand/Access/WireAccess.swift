// SPDX-License-Identifier: Apache-2.0
//
// A running broker, over the wire. Rests on MartletClient.

import MartletClient

struct WireAdministrator: AdministratorAccess {
    let administrator: MartletAdministrator

    func createProject(_ id: String, conditionTopicsMax: Int) async throws -> ProjectAnswer {
        guard let topicsMax = UInt8(exactly: conditionTopicsMax) else {
            throw MartletError(
                .invalidArgument,
                "A project allows 1 to \(Limits.conditionTopicsCeiling) topics in a condition.",
                field: "condition-topics")
        }
        return ProjectAnswer(
            try await administrator.createProject(id, conditionTopicsMax: topicsMax))
    }

    func projects(after: String) async throws -> AnswerPage<ProjectAnswer> {
        let page = try await administrator.projects(after: after)
        return AnswerPage(
            entries: page.projects.map { ProjectAnswer($0) },
            next: page.hasMore ? page.projects.last?.projectID : nil)
    }

    func createKey(name: String, in project: String) async throws -> NewKeyAnswer {
        let key = try await administrator.createKey(name: name, inProject: project)
        return NewKeyAnswer(project: project, keyID: key.keyID, key: key.serverKey)
    }

    func keys(in project: String) async throws -> [KeyAnswer] {
        try await administrator.keys(inProject: project).map {
            KeyAnswer(
                keyID: $0.keyID, name: $0.name, created: $0.created.iso8601, revoked: $0.isRevoked)
        }
    }

    func revokeKey(_ id: String, in project: String) async throws {
        try await administrator.revokeKey(id, inProject: project)
    }

    func close() async throws { await administrator.close() }
}

struct WireSender: SenderAccess {
    let sender: MartletSender

    func send(_ message: OutgoingMessage) async throws -> SendAnswer {
        let result = try await sender.send(message)
        return SendAnswer(
            messageID: result.messageID, recipients: result.recipients,
            rateLimited: result.rateLimited, inactive: result.inactive)
    }

    func cancel(_ messageID: String) async throws -> CancelAnswer {
        let result = try await sender.cancel(messageID)
        return CancelAnswer(
            messageID: messageID, wasScheduled: result.wasScheduled, delivered: result.delivered)
    }

    func receipts(_ body: @Sendable (ReceiptAnswer) async -> Bool) async throws {
        var receipts = sender.receipts.makeAsyncIterator()
        while let receipt = try await receipts.next() {
            let goesOn = await body(
                ReceiptAnswer(
                    messageID: receipt.messageID, token: receipt.token, kind: receipt.kind.name,
                    instant: receipt.instant.millisecondsSince1970))
            guard goesOn else { return await receipts.take() }
        }
    }

    func topics(after: String) async throws -> AnswerPage<TopicAnswer> {
        AnswerPage(try await sender.topics(after: after))
    }

    func topics(ofToken token: String, after: String) async throws -> AnswerPage<TopicAnswer> {
        AnswerPage(try await sender.topics(ofToken: token, after: after))
    }

    func subscribers(
        of topic: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        let page = try await sender.subscribers(
            ofTopic: topic, cursor: after, limit: UInt16(clamping: limit))
        return AnswerPage(page)
    }

    func tokens(
        matching condition: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        AnswerPage(
            try await sender.tokens(
                matching: condition, cursor: after, limit: UInt16(clamping: limit)))
    }

    func audience(of condition: String) async throws -> AudienceAnswer {
        let audience = try await sender.audience(of: condition)
        return AudienceAnswer(
            condition: condition, total: audience.total, android: audience.android,
            apple: audience.apple, web: audience.web,
            apps: audience.apps.map {
                .init(app: $0.appName, platform: $0.platform.name, count: $0.count)
            })
    }

    func explain(_ condition: String) async throws -> ExplanationAnswer {
        let explanation = try await sender.explain(condition)
        let tree = ExplanationTree(explanation.tree)
        return ExplanationAnswer(
            condition: condition, readAs: tree.normalForm,
            parts: zip(explanation.parts, tree.lines).map { part, line in
                .init(
                    depth: line.depth, start: Int(part.start), end: Int(part.end),
                    text: condition.slice(Int(part.start), Int(part.end)), count: part.count)
            },
            bytecode: explanation.bytecode.split(separator: "\n").map(String.init),
            advice: explanation.advice.map {
                .init(byteOffset: Int($0.byteOffset), message: $0.text)
            })
    }

    func close() async throws { await sender.close() }
}

extension ProjectAnswer {
    init(_ project: ProjectRecord) {
        self.init(
            project: project.projectID, senderID: project.senderID,
            conditionTopicsMax: Int(project.conditionTopicsMax), instances: project.instances,
            topics: project.topics)
    }
}

extension AnswerPage where Entry == TopicAnswer {
    init(_ page: TopicPage) {
        self.init(
            entries: page.topics.map { TopicAnswer(topic: $0.name, subscribers: $0.subscribers) },
            next: page.hasMore ? page.topics.last?.name : nil)
    }
}

extension AnswerPage where Entry == String {
    fileprivate init(_ page: TokenPage) {
        self.init(entries: page.tokens, next: page.nextCursor.isEmpty ? nil : page.nextCursor)
    }
}
