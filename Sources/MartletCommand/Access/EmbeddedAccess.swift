// SPDX-License-Identifier: Apache-2.0
//
// Access to a data folder opened in this process, without an address, while no broker serves the folder. Rests on the
// embedding API.

import Martlet
import MartletGateway

struct EmbeddedAdministrator: AdministratorAccess {
    let broker: Broker

    func createProject(_ id: String, conditionTopicsMax: Int) async throws -> NewProjectAnswer {
        let project = try await broker.createProject(id, conditionTopicsMax: conditionTopicsMax)
        let key = try await broker.createRegistrationKey(named: "first", in: id)
        return NewProjectAnswer(ProjectAnswer(project), registrationKey: key.text)
    }

    func changeProject(
        _ id: String, weight: Int?, overload: OverloadPolicy?, conditionTopicsMax: Int?
    ) async throws -> ProjectAnswer {
        ProjectAnswer(
            try await broker.changeProject(
                id, weight: weight, overload: overload, conditionTopicsMax: conditionTopicsMax))
    }

    func fanouts(of project: String?, after: String) async throws -> AnswerPage<FanoutAnswer> {
        let page = try broker.fanouts(in: project, after: after, limit: Limits.pageEntriesMax)
        return AnswerPage(entries: page.entries.map { FanoutAnswer($0) }, next: page.next)
    }

    func projects(after: String) async throws -> AnswerPage<ProjectAnswer> {
        let page = try broker.projects(after: after, limit: Limits.pageEntriesMax)
        return AnswerPage(entries: page.entries.map { ProjectAnswer($0) }, next: page.next)
    }

    func createKey(name: String, in project: String) async throws -> NewKeyAnswer {
        let key = try await broker.createServerKey(named: name, in: project)
        return NewKeyAnswer(project: project, keyID: key.id, key: key.text)
    }

    func keys(in project: String) async throws -> [KeyAnswer] {
        try broker.serverKeys(in: project).map {
            KeyAnswer(
                keyID: $0.id, name: $0.name, created: $0.created.iso8601, revoked: $0.isRevoked)
        }
    }

    func revokeKey(_ id: String, in project: String) async throws {
        try await broker.revokeServerKey(id, in: project)
    }

    func createServiceAccount(_ file: ServiceAccountFile, named name: String) async throws {
        try await broker.createServiceAccount(
            keyID: file.keyID, named: name, clientEmail: file.clientEmail,
            publicKey: file.publicKey, in: file.projectID)
    }

    func serviceAccounts(in project: String) async throws -> [ServiceAccountAnswer] {
        try broker.serviceAccounts(in: project).map {
            ServiceAccountAnswer(
                keyID: $0.keyID, name: $0.name, clientEmail: $0.clientEmail,
                created: $0.created.iso8601, revoked: $0.isRevoked)
        }
    }

    func revokeServiceAccount(_ id: String, in project: String) async throws {
        try await broker.revokeServiceAccount(id, in: project)
    }

    func close() async throws { try await broker.close() }
}

struct EmbeddedSender: SenderAccess {
    let broker: Broker
    let project: String

    func upstream(_ body: @Sendable (UpstreamAnswer) async -> Bool) async throws {
        var messages = broker.upstreamMessages(in: project).makeAsyncIterator()
        while let message = try await messages.next() {
            let goesOn = await body(
                UpstreamAnswer(
                    number: message.number, token: message.token, app: message.app,
                    messageID: message.messageID,
                    accepted: message.accepted.millisecondsSince1970,
                    expires: message.expires.millisecondsSince1970,
                    data: Dictionary(
                        message.data.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })))
            guard goesOn else { return try await messages.take() }
        }
    }

    func send(_ message: OutgoingMessage) async throws -> SendAnswer {
        let receipt = try await broker.send(message, in: project)
        return SendAnswer(
            messageID: receipt.messageID, recipients: receipt.recipientCount,
            rateLimited: receipt.rateLimitedCount, inactive: receipt.inactiveCount,
            deferredPlace: receipt.deferredPlace.map { UInt64($0) }
        ).with(receipt.tokens)
    }

    func cancel(_ messageID: String) async throws -> CancelAnswer {
        let summary = try await broker.cancel(messageID, in: project)
        return CancelAnswer(
            messageID: messageID, wasScheduled: summary.wasScheduled,
            delivered: summary.deliveredCount)
    }

    func report(of messageID: String) async throws -> DeliveryReport {
        try broker.report(of: messageID, in: project)
    }

    func reports(days: ClosedRange<Day>, after: String) async throws -> AnswerPage<DailyCounts> {
        let page = try broker.reports(days: days, in: project, after: after)
        return AnswerPage(entries: page.entries, next: page.next)
    }

    func notReceived(
        _ messageID: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        let page = try broker.notReceived(messageID, in: project, after: after, limit: limit)
        return AnswerPage(entries: page.entries, next: page.next)
    }

    func receipts(_ body: @Sendable (ReceiptAnswer) async -> Bool) async throws {
        var receipts = broker.receipts(in: project).makeAsyncIterator()
        while let receipt = try await receipts.next() {
            let goesOn = await body(
                ReceiptAnswer(
                    messageID: receipt.messageID, token: receipt.token, kind: receipt.kind.name,
                    instant: receipt.instant.millisecondsSince1970))
            guard goesOn else { return try await receipts.take() }
        }
    }

    func fanouts(after: String) async throws -> AnswerPage<FanoutAnswer> {
        let page = try broker.fanouts(in: project, after: after, limit: Limits.pageEntriesMax)
        return AnswerPage(entries: page.entries.map { FanoutAnswer($0) }, next: page.next)
    }

    func topics(after: String) async throws -> AnswerPage<TopicAnswer> {
        AnswerPage(try broker.topics(in: project, after: after, limit: Limits.pageEntriesMax))
    }

    func topics(ofToken token: String, after: String) async throws -> AnswerPage<TopicAnswer> {
        AnswerPage(
            try broker.topics(
                of: token, in: project, after: after, limit: Limits.pageEntriesMax))
    }

    func subscribers(
        of topic: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        let page = try broker.subscribers(of: topic, in: project, after: after, limit: limit)
        return AnswerPage(entries: page.entries, next: page.next)
    }

    func tokens(
        matching condition: String, after: String, limit: Int
    ) async throws -> AnswerPage<String> {
        let page = try broker.tokens(matching: condition, in: project, after: after, limit: limit)
        return AnswerPage(entries: page.entries, next: page.next)
    }

    func changeTopic(
        _ topic: String, _ operation: TopicOperation, tokens: [String]
    ) async throws -> TokensAnswer {
        let summary =
            switch operation {
            case .subscribe: try await broker.subscribe(tokens, to: topic, in: project)
            case .unsubscribe: try await broker.unsubscribe(tokens, from: topic, in: project)
            }
        return TokensAnswer(
            successes: summary.successCount,
            failures: summary.failures.map { ($0.index, $0.word) }, tokens: tokens)
    }

    func unregister(_ token: String) async throws {
        try await broker.unregister(token, in: project)
    }

    func createGroup(named name: String, tokens: [String]) async throws -> GroupAnswer {
        GroupAnswer(try await broker.createGroup(named: name, tokens: tokens, in: project))
    }

    func changeGroup(
        named name: String, key: String, _ operation: GroupOperation, tokens: [String]
    ) async throws -> GroupAnswer {
        switch operation {
        case .add:
            GroupAnswer(
                try await broker.addToGroup(named: name, key: key, tokens: tokens, in: project))
        case .remove:
            GroupAnswer(
                try await broker.removeFromGroup(
                    named: name, key: key, tokens: tokens, in: project))
        }
    }

    func group(named name: String) async throws -> GroupAnswer {
        GroupAnswer(try broker.group(named: name, in: project))
    }

    func groups(after: String) async throws -> AnswerPage<GroupEntryAnswer> {
        let page = try broker.groups(in: project, after: after, limit: Limits.pageEntriesMax)
        return AnswerPage(
            entries: page.entries.map {
                .init(name: $0.name, key: $0.key, members: $0.memberCount)
            },
            next: page.next)
    }

    func quotas() async throws -> [QuotaAnswer] {
        try broker.quotas(project: project).map {
            QuotaAnswer(
                quota: $0.name, limit: $0.limit, remaining: $0.remaining,
                untilFullMilliseconds: $0.untilFullMilliseconds)
        }
    }

    func audience(of condition: String) async throws -> AudienceAnswer {
        let audience = try broker.audience(of: condition, in: project)
        return AudienceAnswer(
            condition: condition, total: audience.total,
            android: audience.perPlatform[.android] ?? 0,
            apple: audience.perPlatform[.apple] ?? 0, web: audience.perPlatform[.web] ?? 0,
            apps: audience.perApp.map {
                .init(app: $0.app, platform: $0.platform.name, count: $0.count)
            })
    }

    func explain(_ condition: String) async throws -> ExplanationAnswer {
        let explanation = try broker.explain(condition, in: project)
        return ExplanationAnswer(
            condition: condition, readAs: explanation.normalForm,
            parts: explanation.parts.map { part in
                let (start, end) = (part.byteRange.lowerBound, part.byteRange.upperBound)
                return .init(
                    depth: part.depth, start: start, end: end,
                    text: condition.slice(start, end), count: part.count)
            },
            bytecode: explanation.bytecode,
            advice: explanation.advice.map {
                .init(byteOffset: Int($0.byteOffset), message: $0.message)
            })
    }

    func close() async throws { try await broker.close() }
}

extension GroupAnswer {
    fileprivate init(_ group: GroupDetails) {
        self.init(name: group.name, key: group.key, tokens: group.tokens)
    }
}

extension ProjectAnswer {
    init(_ project: ProjectSummary) {
        self.init(
            project: project.id, senderID: project.senderID,
            conditionTopicsMax: project.conditionTopicsMax, instances: project.instanceCount,
            topics: project.topicCount, weight: project.weight, onOverload: project.overload.name)
    }
}

extension FanoutAnswer {
    init(_ fanout: FanoutSummary) {
        self.init(
            project: fanout.project, messageID: fanout.messageID, kind: fanout.target.kind.name,
            target: fanout.target.text, since: fanout.since.millisecondsSince1970,
            deferredPlace: fanout.deferredPlace, recipients: fanout.recipientCount,
            delivered: fanout.deliveredCount, progress: fanout.progress,
            deliveriesPerSecond: fanout.deliveriesPerSecond, share: fanout.share,
            secondsLeft: fanout.secondsLeft)
    }
}

extension AnswerPage where Entry == TopicAnswer {
    init(_ page: ListPage<TopicSummary>) {
        self.init(
            entries: page.entries.map {
                TopicAnswer(topic: $0.name, subscribers: $0.subscriberCount)
            },
            next: page.next)
    }
}
