// SPDX-License-Identifier: Apache-2.0
//
// Access to a running broker over the wire. Rests on MartletClient.

import MartletClient
import MartletGateway

struct WireAdministrator: AdministratorAccess {
    let administrator: MartletAdministrator

    func createProject(_ id: String, conditionTopicsMax: Int) async throws -> NewProjectAnswer {
        guard let topicsMax = UInt8(exactly: conditionTopicsMax) else {
            throw MartletError(
                .invalidArgument,
                "A project allows 1 to \(Limits.conditionTopicsCeiling) topics in a condition.",
                field: "condition-topics")
        }
        let (project, key) = try await administrator.createProject(
            id, conditionTopicsMax: topicsMax)
        return NewProjectAnswer(ProjectAnswer(project), registrationKey: key)
    }

    func changeProject(
        _ id: String, weight: Int?, overload: OverloadPolicy?, conditionTopicsMax: Int?
    ) async throws -> ProjectAnswer {
        ProjectAnswer(
            try await administrator.changeProject(
                id, weight: weight.map { UInt32(clamping: $0) }, overload: overload,
                conditionTopicsMax: conditionTopicsMax.map { UInt8(clamping: $0) }))
    }

    func fanouts(of project: String?, after: String) async throws -> AnswerPage<FanoutAnswer> {
        AnswerPage(try await administrator.fanouts(ofProject: project ?? "", cursor: after))
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

    func createServiceAccount(_ file: ServiceAccountFile, named name: String) async throws {
        try await administrator.createServiceAccount(
            keyID: file.keyID, name: name, clientEmail: file.clientEmail,
            publicKey: file.publicKey, inProject: file.projectID)
    }

    func serviceAccounts(in project: String) async throws -> [ServiceAccountAnswer] {
        try await administrator.serviceAccounts(inProject: project).map {
            ServiceAccountAnswer(
                keyID: $0.keyID, name: $0.name, clientEmail: $0.clientEmail,
                created: $0.created.iso8601, revoked: $0.isRevoked)
        }
    }

    func revokeServiceAccount(_ id: String, in project: String) async throws {
        try await administrator.revokeServiceAccount(id, inProject: project)
    }

    func close() async throws { await administrator.close() }
}

struct WireSender: SenderAccess {
    let sender: MartletSender

    func send(_ message: OutgoingMessage) async throws -> SendAnswer {
        let result = try await sender.send(message)
        return SendAnswer(
            messageID: result.messageID, recipients: result.recipients,
            rateLimited: result.rateLimited, inactive: result.inactive,
            deferredPlace: result.deferredPlace
        ).with(result.tokens)
    }

    func cancel(_ messageID: String) async throws -> CancelAnswer {
        let result = try await sender.cancel(messageID)
        return CancelAnswer(
            messageID: messageID, wasScheduled: result.wasScheduled, delivered: result.delivered)
    }

    func report(of messageID: String) async throws -> DeliveryReport {
        try await sender.report(of: messageID)
    }

    func reports(days: ClosedRange<Day>, after: String) async throws -> AnswerPage<DailyCounts> {
        let page = try await sender.reports(days: days, cursor: after)
        return AnswerPage(
            entries: page.entries, next: page.nextCursor.isEmpty ? nil : page.nextCursor)
    }

    func notReceived(
        _ messageID: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        AnswerPage(
            try await sender.notReceived(
                messageID, cursor: after, limit: UInt16(clamping: limit)))
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

    func upstream(_ body: @Sendable (UpstreamAnswer) async -> Bool) async throws {
        var messages = sender.upstreamMessages.makeAsyncIterator()
        while let message = try await messages.next() {
            let goesOn = await body(
                UpstreamAnswer(
                    number: message.number, token: message.token, app: message.appName,
                    messageID: message.messageID,
                    accepted: message.accepted.millisecondsSince1970,
                    expires: message.expires.millisecondsSince1970,
                    data: Dictionary(
                        message.data.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })))
            guard goesOn else { return await messages.take() }
        }
    }

    func fanouts(after: String) async throws -> AnswerPage<FanoutAnswer> {
        AnswerPage(try await sender.fanouts(cursor: after))
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

    func changeTopic(
        _ topic: String, _ operation: TopicOperation, tokens: [String]
    ) async throws -> TokensAnswer {
        let result =
            switch operation {
            case .subscribe: try await sender.subscribe(tokens, toTopic: topic)
            case .unsubscribe: try await sender.unsubscribe(tokens, fromTopic: topic)
            }
        return TokensAnswer(
            successes: Int(result.successes),
            failures: result.failures.map { (Int($0.index), $0.word) }, tokens: tokens)
    }

    func unregister(_ token: String) async throws { try await sender.unregister(token) }

    func createGroup(named name: String, tokens: [String]) async throws -> GroupAnswer {
        GroupAnswer(try await sender.createGroup(named: name, tokens: tokens))
    }

    func changeGroup(
        named name: String, key: String, _ operation: GroupOperation, tokens: [String]
    ) async throws -> GroupAnswer {
        switch operation {
        case .add: GroupAnswer(try await sender.addToGroup(named: name, key: key, tokens: tokens))
        case .remove:
            GroupAnswer(try await sender.removeFromGroup(named: name, key: key, tokens: tokens))
        }
    }

    func group(named name: String) async throws -> GroupAnswer {
        GroupAnswer(try await sender.group(named: name))
    }

    func groups(after: String) async throws -> AnswerPage<GroupEntryAnswer> {
        let page = try await sender.groups(after: after)
        return AnswerPage(
            entries: page.groups.map {
                .init(name: $0.name, key: $0.key, members: Int($0.members))
            },
            next: page.hasMore ? page.groups.last?.name : nil)
    }

    func quotas() async throws -> [QuotaAnswer] {
        try await sender.quotas().map {
            QuotaAnswer(
                quota: $0.name, limit: $0.limit, remaining: $0.remaining,
                untilFullMilliseconds: $0.untilFullMilliseconds.map { UInt64($0) })
        }
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

extension GroupAnswer {
    fileprivate init(_ group: GroupResult) {
        self.init(name: group.name, key: group.key, tokens: group.tokens)
    }
}

extension ProjectAnswer {
    init(_ project: ProjectRecord) {
        self.init(
            project: project.projectID, senderID: project.senderID,
            conditionTopicsMax: Int(project.conditionTopicsMax), instances: project.instances,
            topics: project.topics, weight: Int(project.weight),
            onOverload: project.overload.name)
    }
}

extension AnswerPage where Entry == FanoutAnswer {
    fileprivate init(_ page: FanoutPage) {
        self.init(
            entries: page.fanouts.map { FanoutAnswer($0) },
            next: page.nextCursor.isEmpty ? nil : page.nextCursor)
    }
}

extension FanoutAnswer {
    fileprivate init(_ fanout: FanoutRecord) {
        self.init(
            project: fanout.projectID,
            messageID: MessageID.text(fanout.messageNumber, projectID: fanout.projectID),
            kind: fanout.kind.name, target: fanout.target,
            since: fanout.since.millisecondsSince1970,
            deferredPlace: fanout.deferredPlace == 0 ? nil : Int(clamping: fanout.deferredPlace),
            recipients: fanout.recipients, delivered: fanout.delivered,
            progress: Double(fanout.progress) / 1_000_000,
            deliveriesPerSecond: Double(fanout.rate), share: Double(fanout.share) / 1_000_000,
            secondsLeft: fanout.secondsLeft.map { Double($0) })
    }
}

extension StatusAnswer {
    init(_ status: StatusResult) {
        self.init(
            now: status.now.millisecondsSince1970, connections: status.connections,
            delivered: status.delivered, deliveriesPerSecond: 0, acknowledged: status.acknowledged,
            fellBehind: status.fellBehind, commandsWaiting: status.commandsWaiting,
            frameBytes: status.frameBytes, requestBytes: status.requestBytes,
            storeBytes: status.storeBytes,
            allocatedBytes: status.allocatedBytes == 0 ? nil : status.allocatedBytes,
            projects: status.projects.map {
                Project(
                    project: $0.projectID, weight: Int($0.weight), connections: $0.connections,
                    delivered: $0.delivered, deliveriesPerSecond: 0,
                    fanoutsInProgress: Int($0.fanoutsInProgress),
                    fanoutsDeferred: Int($0.fanoutsDeferred), fanoutBytes: $0.fanoutBytes,
                    frameBytes: $0.frameBytes, requestBytes: $0.requestBytes,
                    share: Double($0.share) / 1_000_000)
            })
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
