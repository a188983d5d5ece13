// SPDX-License-Identifier: Apache-2.0
//
// A sender's requests about subscriptions and instances: changes and lists (TOP-4, TOP-9, REG-3). A device may ask for
// its own topics. Rests on ServedRequest and the engine's queries.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

extension ChangeTopicRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<TopicResult> {
        let project = try principal.senderProject()
        return .command(
            .changeTopic(project: project, topic: topic, change: operation, tokens: tokens)
        ) { outcome throws(MartletError) in
            guard case .topicsChanged(let result) = outcome else { throw .unexpected }
            return .answer(TopicResult(result))
        }
    }
}

extension UnregisterTokenRequest: ServedRequest {
    /// Messages acknowledged before the unregistration count as delivered.
    static var comesAfterAcknowledgements: Bool { true }

    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        .command(.unregisterToken(project: try principal.senderProject(), token: token))
    }
}

extension ListTopicsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TopicPage {
        let project = try principal.senderProject()
        return TopicPage(
            try answerer.read {
                try Listing.topics(in: project, after: after, limit: Int(limit), $0)
            })
    }
}

extension ListInstanceTopicsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TopicPage {
        let project: ProjectNumber
        var own: Ordinal?
        if case .device(let number, let ordinal, _) = principal, token.isEmpty {
            project = number
            own = ordinal
        } else {
            project = try principal.senderProject()
        }
        return TopicPage(
            try answerer.read { (transaction) throws in
                try Listing.topics(
                    of: try own ?? Listing.locate(token, in: project, transaction), in: project,
                    after: after, limit: Int(limit), transaction)
            })
    }
}

extension ListSubscribersRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TokenPage {
        let project = try principal.senderProject()
        let name = try TopicName(validating: topic)
        let start = try Ordinal(cursor: cursor)
        return TokenPage(
            try answerer.read {
                try Listing.subscribers(of: name, in: project, from: start, limit: Int(limit), $0)
            })
    }
}

extension TopicResult {
    init(_ result: TopicChangeResult) {
        self.init(
            successes: UInt16(result.successCount),
            failures: result.failures.map { Failure(index: UInt16($0.index), word: $0.word) })
    }
}

extension TopicPage {
    fileprivate init(_ page: Listing.Page<Topic>) {
        self.init(
            hasMore: page.hasMore,
            topics: page.entries.map {
                TopicSummary(name: $0.name.text, subscriberCount: $0.subscriberCount)
            })
    }
}

extension TokenPage {
    init(_ page: Listing.Tokens) {
        self.init(
            total: page.total, nextCursor: page.next.map { String($0.rawValue) } ?? "",
            tokens: page.tokens.map(\.text))
    }
}

extension Ordinal {
    /// The ordinal with which a page of tokens begins. An empty cursor stands for the first page.
    init(cursor: String) throws(MartletError) {
        guard let value = cursor.isEmpty ? 0 : UInt32(cursor) else {
            throw MartletError(
                .invalidArgument, "The cursor is not one that a page ended with.", field: "cursor")
        }
        self.init(value)
    }
}
