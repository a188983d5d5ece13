// SPDX-License-Identifier: Apache-2.0
//
// Answers to questions, read from a snapshot: audiences, explanations, lists. Rests on the engine's
// queries and MartletWire.

import MartletBase
import MartletCondition
import MartletEngine
import MartletRows
import MartletStore
import MartletWire

/// Answers the frame of a question with a frame.
struct Answerer: Sendable {
    let store: Store
    let programs: SharedPrograms
    let gauges: Gauges
    let limits: MailboxLimits

    /// - Throws: `MartletError` for the peer, `StorageError`.
    func answer(_ question: QuestionFrame, _ principal: Principal) throws -> BrokerFrame {
        switch question {
        case .condition(let question):
            return try answer(question, try principal.senderProject())
        case .listTopics(let question):
            let project = try principal.senderProject()
            let page = try store.read { (transaction) throws in
                try Listing.topics(
                    in: project, after: question.after, limit: Int(question.limit), transaction)
            }
            return .topicPage(TopicPage(correlation: question.correlation, page))
        case .listInstanceTopics(let question):
            return try answer(question, principal)
        case .listSubscribers(let question):
            return try answer(question, try principal.senderProject())
        case .listAudience(let question):
            return try answer(question, try principal.senderProject())
        case .listProjects(let question):
            try principal.checkAdministrator()
            let page = try store.read { (transaction) throws in
                try Listing.projects(
                    after: question.after, limit: Int(question.limit), transaction)
            }
            return .projectPage(
                ProjectPage(
                    correlation: question.correlation, hasMore: page.hasMore,
                    projects: page.entries.map { ProjectRecord($0) }))
        case .listKeys(let question):
            try principal.checkAdministrator()
            let keys = try store.read { (transaction) throws in
                let project = try Authentication.project(id: question.projectID, in: transaction)
                return try transaction.projects.serverKeys(of: project.number)
            }
            return .keyPage(
                KeyPage(
                    correlation: question.correlation,
                    keys: keys.map {
                        KeyPage.Entry(
                            keyID: $0.id, name: $0.name, created: $0.created,
                            isRevoked: $0.isRevoked)
                    }))
        case .listServiceAccounts(let question):
            try principal.checkAdministrator()
            let keys = try store.read { (transaction) throws in
                let project = try Authentication.project(id: question.projectID, in: transaction)
                return try transaction.projects.serviceAccountKeys(of: project.number)
            }
            return .serviceAccountPage(
                ServiceAccountPage(
                    correlation: question.correlation,
                    accounts: keys.map {
                        ServiceAccountPage.Entry(
                            keyID: $0.id, name: $0.name, clientEmail: $0.clientEmail,
                            created: $0.created, isRevoked: $0.isRevoked)
                    }))
        case .findGroup(let question):
            return try answer(question, try principal.senderProject())
        case .listGroups(let question):
            return try answer(question, try principal.senderProject())
        case .report(let question):
            return try answer(question, try principal.senderProject())
        case .listDays(let question):
            return try answer(question, try principal.senderProject())
        case .listNotReceived(let question):
            return try answer(question, try principal.senderProject())
        case .listFanouts(let question): return try answer(question, principal)
        case .status(let question):
            try principal.checkAdministrator()
            return .statusResult(
                StatusResult(
                    correlation: question.correlation, now: gauges.clock(), gauges.statistics,
                    try gauges.projects()))
        }
    }

    /// MSG-10: answers a cancellation that was committed, with the number of recipients that have the message.
    func answer(_ request: CancelRequest, _ principal: Principal) throws -> BrokerFrame {
        let project = try principal.senderProject()
        let count = try store.read { (transaction) throws in
            try Delivered.count(of: request.messageNumber, in: project, transaction)
        }
        return .cancelled(
            Cancelled(correlation: request.correlation, wasScheduled: false, delivered: count))
    }

    private func answer(
        _ question: ConditionQuestion, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        switch question.kind {
        case .audience:
            let audience = try store.read { (transaction) throws in
                try Audience(of: question.condition, in: project, programs, transaction)
            }
            return .audienceResult(
                AudienceResult(
                    correlation: question.correlation, total: audience.total,
                    android: audience.perPlatform[.android] ?? 0,
                    apple: audience.perPlatform[.apple] ?? 0,
                    web: audience.perPlatform[.web] ?? 0,
                    apps: audience.perApp.map {
                        AudienceResult.AppCount(
                            appName: $0.app.name, platform: $0.app.platform, count: $0.count)
                    }))
        case .explain:
            let explanation = try store.read { (transaction) throws in
                try Audience.explain(
                    question.condition, in: project, programs, transaction)
            }
            return .explanation(
                MartletWire.Explanation(
                    correlation: question.correlation, tree: explanation.treeText,
                    bytecode: explanation.bytecode.joined(separator: "\n"),
                    parts: explanation.parts.map {
                        MartletWire.Explanation.Part(
                            start: UInt32($0.byteRange.lowerBound),
                            end: UInt32($0.byteRange.upperBound), count: $0.count)
                    },
                    advice: explanation.advice))
        }
    }

    private func answer(
        _ question: ListInstanceTopicsRequest, _ principal: Principal
    ) throws -> BrokerFrame {
        let isOwn = question.token.isEmpty
        let project: ProjectNumber
        var own: Ordinal?
        if case .device(let number, let ordinal, _) = principal, isOwn {
            project = number
            own = ordinal
        } else {
            project = try principal.senderProject()
        }
        let page = try store.read { (transaction) throws in
            let ordinal = try own ?? Listing.locate(question.token, in: project, transaction)
            return try Listing.topics(
                of: ordinal, in: project, after: question.after, limit: Int(question.limit),
                transaction)
        }
        return .topicPage(TopicPage(correlation: question.correlation, page))
    }

    private func answer(
        _ question: ListSubscribersRequest, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        let name = try TopicName(validating: question.topic)
        let start = try Ordinal(cursor: question.cursor)
        let page = try store.read { (transaction) throws in
            try Listing.subscribers(
                of: name, in: project, from: start, limit: Int(question.limit), transaction)
        }
        return .tokenPage(TokenPage(correlation: question.correlation, page))
    }

    private func answer(
        _ question: ListAudienceRequest, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        let start = try Ordinal(cursor: question.cursor)
        let page = try store.read { (transaction) throws in
            try Listing.audience(
                of: question.condition, in: project, from: start, limit: Int(question.limit),
                programs, transaction)
        }
        return .tokenPage(TokenPage(correlation: question.correlation, page))
    }
}

extension ProjectRecord {
    init(_ project: Project) {
        self.init(
            projectID: project.id, senderID: project.senderID,
            conditionTopicsMax: UInt8(project.conditionTopicsMax),
            instances: project.instanceCount, topics: project.topicCount,
            weight: UInt32(project.weight), overload: project.overload)
    }
}

extension TokenPage {
    init(correlation: UInt32, _ page: Listing.Tokens) {
        self.init(
            correlation: correlation, total: page.total,
            nextCursor: page.next.map { String($0.rawValue) } ?? "",
            tokens: page.tokens.map(\.text))
    }
}

extension QuotaList {
    init(correlation: UInt32, _ amounts: [QuotaAmount]) {
        self.init(
            correlation: correlation,
            quotas: amounts.map {
                Entry(
                    name: $0.name, limit: $0.limit, remaining: $0.remaining,
                    // The largest value means "not known" on the wire. A longer time is cut to some 49 days.
                    untilFullMilliseconds: $0.untilFullMilliseconds.map {
                        UInt32(clamping: min($0, UInt64(UInt32.max - 1)))
                    })
            })
    }
}

extension TopicPage {
    init(correlation: UInt32, _ page: Listing.Page<Topic>) {
        self.init(
            correlation: correlation, hasMore: page.hasMore,
            topics: page.entries.map {
                Entry(name: $0.name.text, subscribers: $0.subscriberCount)
            })
    }
}

extension MartletCondition.Explanation {
    /// Bytes for the advice of an explanation. The frame has 256 KiB; tree, bytecode and parts have at most 64
    /// KiB each.
    private static var adviceBytesMax: Int { 48 * 1024 }
    /// Characters of a piece of advice. Advice that quotes a long condition is cut here.
    private static var adviceCharactersMax: Int { 500 }

    /// The first pieces of advice, as many as fit into the frame.
    var advice: [MartletWire.Explanation.Advice] {
        var left = Self.adviceBytesMax
        var result: [MartletWire.Explanation.Advice] = []
        for lint in lints {
            var text = lint.message
            if text.count > Self.adviceCharactersMax {
                text = String(text.prefix(Self.adviceCharactersMax)) + "…"
            }
            left -= text.utf8.count + 6
            guard left >= 0 else { break }
            result.append(.init(byteOffset: lint.byteOffset, text: text))
        }
        return result
    }

    /// The sub-expressions, indented by depth, each with its cardinality.
    var treeText: String {
        parts.map { part in
            String(repeating: "  ", count: part.depth) + "\(part.label)  \(part.count)"
        }.joined(separator: "\n")
    }
}
