// SPDX-License-Identifier: Apache-2.0
//
// What a loop tells its peers: what came of their commands, and answers to questions, which are read
// from a snapshot on this thread. Rests on the engine's queries and MartletWire.

import MartletBase
import MartletCondition
import MartletEngine
import MartletRing
import MartletStore
import MartletWire

extension Loop where Kernel: ~Copyable {
    // MARK: Messages of other threads

    mutating func handle(_ message: LoopMessage) {
        switch message {
        case .fanout(let fanout): begin(fanout)
        case .outcome(let id, let context, let outcome):
            guard let connection = connection(id) else { return }
            connection.pointee.outstanding -= 1
            answer(connection, context, outcome)
            resumeIfDrained(connection)
            closeIfDone(connection)
        case .connected(let project, let ordinal, let number):
            guard let mine = delivery.session(of: ordinal, in: project),
                mine.connectionNumber < number
            else { return }
            replace(connections + Int(mine.index))
        case .disconnect(let project, let ordinal, let holder):
            guard let mine = delivery.session(of: ordinal, in: project) else { return }
            let connection = connections + Int(mine.index)
            // The ordinal's next holder may have been faster than this message.
            if let holder, connection.pointee.principal.holder != holder { return }
            delivery.detach(mine.index)
            connection.pointee.phase = .finishing
            connection.pointee.phaseBegan = lastTick
            transport.pauseReceive(connection.pointee.id)
            closeIfDone(connection)
        case .acknowledged: isAcknowledging = false
        case .drain: beginDraining()
        }
    }

    private mutating func answer(
        _ connection: UnsafeMutablePointer<Connection>, _ context: RequestContext,
        _ outcome: Outcome
    ) {
        let correlation = context.correlation
        switch outcome {
        case .refused(let error):
            if case .registration = context.purpose {
                fail(connection, error)
            } else {
                send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
            }
        case .registered(let instance, let project):
            guard case .registration(let deviceKey) = context.purpose,
                connection.pointee.phase == .registering
            else { return }
            welcomeDevice(
                connection, project: project, instance: instance,
                acknowledgedThrough: project.lastSequence, receivedThrough: .none,
                token: instance.token.text, deviceKey: deviceKey)
        case .project(let project):
            send(
                .project(ProjectResult(correlation: correlation, project: ProjectRecord(project))),
                to: connection)
        case .key(let key):
            if case .keyCreation(let serverKey) = context.purpose {
                send(
                    .key(KeyResult(correlation: correlation, keyID: key.id, serverKey: serverKey)),
                    to: connection)
            } else {
                send(.done(Done(correlation: correlation)), to: connection)
            }
        case .done, .unregistered:
            send(.done(Done(correlation: correlation)), to: connection)
        case .topicsChanged(let result):
            let failures = result.failures.map {
                TopicResult.Failure(index: UInt16($0.index), word: $0.word)
            }
            send(
                .topicResult(
                    TopicResult(
                        correlation: correlation, successes: UInt16(result.successCount),
                        failures: failures)), to: connection)
        case .accepted(let acceptance, _):
            send(
                .accepted(
                    Accepted(
                        correlation: correlation, messageNumber: acceptance.messageNumber,
                        recipients: acceptance.recipientCount)), to: connection)
        }
    }

    /// Queues a frame. A peer that lets its answers pile up is disconnected.
    mutating func send(_ frame: BrokerFrame, to connection: UnsafeMutablePointer<Connection>) {
        var bytes = writer.encode(frame)
        if bytes.count > WireVersion.lengthBytes + Limits.brokerFrameBytesMax {
            bytes = writer.encode(
                .error(
                    ErrorFrame(
                        correlation: frame.correlation ?? 0,
                        error: MartletError(
                            .resourceExhausted,
                            "The answer is longer than a frame may be; ask for less."))))
        }
        let target = delivery.reserve(bytes.count, .direct)
        target.copyBytes(from: bytes)
        if !delivery.send(bytes.count, to: connection.pointee.id.index) { close(connection) }
    }

    // MARK: Questions

    mutating func answer(
        _ frame: ClientFrame, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        let answer: BrokerFrame
        switch frame {
        case .condition(let question):
            answer = try self.answer(question, try senderProject(connection))
        case .listTopics(let question):
            let project = try senderProject(connection)
            let page = try context.store.read { (transaction) throws in
                try Listing.topics(
                    in: project, after: question.after, limit: Int(question.limit), transaction)
            }
            answer = .topicPage(TopicPage(correlation: question.correlation, page))
        case .listInstanceTopics(let question):
            answer = try self.answer(question, connection)
        case .listSubscribers(let question):
            answer = try self.answer(question, try senderProject(connection))
        case .listAudience(let question):
            answer = try self.answer(question, try senderProject(connection))
        case .listProjects(let question):
            try checkAdministrator(connection)
            let page = try context.store.read { (transaction) throws in
                try Listing.projects(
                    after: question.after, limit: Int(question.limit), transaction)
            }
            answer = .projectPage(
                ProjectPage(
                    correlation: question.correlation, hasMore: page.hasMore,
                    projects: page.entries.map { ProjectRecord($0) }))
        case .listKeys(let question):
            try checkAdministrator(connection)
            let keys = try context.store.read { (transaction) throws in
                let project = try Authentication.project(id: question.projectID, in: transaction)
                return try transaction.serverKeys(of: project.number)
            }
            answer = .keyPage(
                KeyPage(
                    correlation: question.correlation,
                    keys: keys.map {
                        KeyPage.Entry(
                            keyID: $0.id, name: $0.name, created: $0.created,
                            isRevoked: $0.isRevoked)
                    }))
        default: preconditionFailure("Only questions are answered from a snapshot.")
        }
        send(answer, to: connection)
    }

    private func answer(
        _ question: ConditionQuestion, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        switch question.kind {
        case .audience:
            let audience = try context.store.read { (transaction) throws in
                try Audience(of: question.condition, in: project, context.programs, transaction)
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
            let explanation = try context.store.read { (transaction) throws in
                try Audience.explain(
                    question.condition, in: project, context.programs, transaction)
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
        _ question: ListInstanceTopicsRequest, _ connection: UnsafeMutablePointer<Connection>
    ) throws -> BrokerFrame {
        let isOwn = question.token.isEmpty
        let project: ProjectNumber
        var own: Ordinal?
        if case .device(let number, let ordinal, _) = connection.pointee.principal, isOwn {
            project = number
            own = ordinal
        } else {
            project = try senderProject(connection)
        }
        let page = try context.store.read { (transaction) throws in
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
        let page = try context.store.read { (transaction) throws in
            try Listing.subscribers(
                of: name, in: project, from: start, limit: Int(question.limit), transaction)
        }
        return .tokenPage(TokenPage(correlation: question.correlation, page))
    }

    private func answer(
        _ question: ListAudienceRequest, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        let start = try Ordinal(cursor: question.cursor)
        let page = try context.store.read { (transaction) throws in
            try Listing.audience(
                of: question.condition, in: project, from: start, limit: Int(question.limit),
                context.programs, transaction)
        }
        return .tokenPage(TokenPage(correlation: question.correlation, page))
    }
}

extension ProjectRecord {
    init(_ project: Project) {
        self.init(
            projectID: project.id, senderID: project.senderID,
            conditionTopicsMax: UInt8(project.conditionTopicsMax),
            instances: project.instanceCount, topics: project.topicCount)
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
    /// Advice of one explanation, in bytes. Tree, bytecode and parts have at most 64 KiB each of the
    /// frame's 256 KiB.
    private static var adviceBytesMax: Int { 48 * 1024 }
    /// An advice that quotes a long condition is cut here.
    private static var adviceCharactersMax: Int { 500 }

    /// The first advices, as many as fit into the frame.
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
