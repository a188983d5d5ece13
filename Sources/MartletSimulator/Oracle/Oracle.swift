// SPDX-License-Identifier: Apache-2.0
//
// The truths of a world. The oracle sees the commands in the order in which they were committed, works out the
// recipients of each message by itself, and checks all frames that devices get:
//
//   - a message comes only to its recipients, and only after its commit
//   - an application takes a message once
//   - on a connection the messages of a lane come in order
//   - a device is sent neither more nor fewer messages than QUO-1 allows
//   - a sender is told the committed outcome
//   - stored messages of a connection are accepted in the order of their sending
//   - a group has the requested members, and a message to the group is for the members
//   - a message of a device is accepted once, and taken by a sender of the project
//   - in the end every recipient has every message, except for messages that expired, collapsed, were
//     discarded with notice, or were cancelled
//
// Rests on the models.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

/// Finds violations of a world's truths.
final class Oracle {
    /// Failures kept, at most: the first failures show the cause.
    private static let failuresMax = 10

    let trace: Trace
    let clock: SimulatedClock
    private let limits: BrokerLimits
    /// OPS-7: the time of the transaction that is told later; nil: the present.
    var moment: Instant?
    private var now: Instant { moment ?? clock.instant }
    /// Whether a message may come twice now.
    var mayRepeat: () -> Bool = { false }
    /// OPS-7: whether a sender may be told `UNAVAILABLE` for a message that was accepted.
    var isUnansweredForLong: (MessageModel) -> Bool = { _ in false }
    /// STO-1: the last discarded message of an instance, according to the stores; 0: none.
    var lastDiscarded: (InstanceModel) -> UInt64 = { _ in 0 }
    private(set) var failures: [String] = []
    private(set) var messages: [MessageModel] = []
    private(set) var upstream: [UpstreamModel] = []
    private(set) var projects: [ProjectModel] = []
    private var byNumber: [ProjectNumber: ProjectModel] = [:]
    private var byToken: [String: InstanceModel] = [:]
    private(set) var instances: [InstanceModel] = []
    private(set) var deliveryCount = 0
    private(set) var takenCount = 0
    /// Sendings of messages so far.
    private var lastPlace = 0
    /// By connection, the last accepted message's place among the sendings.
    private var acceptedPlaces: [Int: Int] = [:]

    init(clock: SimulatedClock, trace: Trace, limits: BrokerLimits) {
        self.clock = clock
        self.trace = trace
        self.limits = limits
    }

    func fail(_ text: @autoclosure () -> String) {
        guard failures.count < Self.failuresMax else { return }
        failures.append("at \(clock.now) µs: \(text())")
        trace.note("failure", failures.count)
    }

    // MARK: Making

    func addProject(id: String) -> ProjectModel {
        let project = ProjectModel(index: projects.count, id: id)
        projects.append(project)
        return project
    }

    func addInstance(
        in project: ProjectModel, token: String, deviceKey: String
    ) -> InstanceModel {
        let instance = InstanceModel(
            number: instances.count, project: project, token: token, deviceKey: deviceKey,
            limits: limits)
        instance.isRegistered = false
        instances.append(instance)
        byToken[token] = instance
        return instance
    }

    func add(_ make: (_ id: Int) -> MessageModel) -> MessageModel {
        let message = make(messages.count)
        messages.append(message)
        return message
    }

    func addUpstream(_ make: (_ id: Int) -> UpstreamModel) -> UpstreamModel {
        let sent = make(upstream.count)
        upstream.append(sent)
        return sent
    }

    // MARK: Commits

    func committed(_ command: Command, _ outcome: Outcome) {
        switch (command, outcome) {
        case (.createProject(let id, _, _, _, _), .project(let project)):
            guard let model = projects.first(where: { $0.id == id }) else { return }
            model.number = project.number
            byNumber[project.number] = model
        case (.register(let new), .registered(let instance, let project)):
            guard let model = byToken[new.token.text] else { return }
            model.isRegistered = true
            model.project.instances.append(model)
            byNumber[project.number]?.holders[instance.ordinal] = model
        case (_, .unregistered(let project, let ordinal, _)):
            guard let project = byNumber[project],
                let instance = project.holders.removeValue(forKey: ordinal)
            else { return }
            instance.isRegistered = false
            leaveGroups(instance)
            for topic in project.members.keys {
                project.members[topic]?.remove(instance.number)
            }
        case (
            .changeTopics(let project, let ordinal, let change, let topics, _),
            .topicsChanged(let result)
        ):
            guard let project = byNumber[project], let instance = project.holders[ordinal] else {
                return
            }
            for (index, topic) in topics.enumerated()
            where !result.failures.contains(where: { $0.index == index }) {
                self.change(project, topic, change, instance)
            }
        case (
            .changeTopic(let project, let topic, let change, let tokens, let progress),
            .topicsChanged(let result)
        ):
            let part = progress.tokens(tokens)
            self.change(project, topic, change, part.dropFirst(progress.doneCount), result)
        case (
            .changeTopic(let project, let topic, let change, let tokens, let progress),
            .unfinished(.changeTopic(_, _, _, _, let next))
        ):
            let part = next.tokens(tokens).prefix(next.doneCount)
            self.change(
                project, topic, change, part.dropFirst(progress.doneCount), next.result)
        case (_, .unfinished): break
        case (.send(_, let command), _): committed(command, outcome)
        case (.createGroup(let project, let name, let key, let tokens), _):
            guard let project = byNumber[project] else { return }
            committedGroup(project, create: name, key.text, tokens, outcome)
        case (.changeGroup(let project, let name, let key, let change, let tokens), _):
            guard let project = byNumber[project] else { return }
            committedGroup(project, change: name, key, change, tokens, outcome)
        case (.upstream(let command), _): committed(command, outcome)
        case (.takeUpstream(let project, let numbers), .upstreamTaken):
            if let project = byNumber[project] { committedTaken(numbers, in: project) }
        case (.cancel(let project, let number), .cancelled):
            messages.first { $0.project.number == project && $0.number == number }?
                .isCancelled = true
        default: break
        }
    }

    /// Applies a change of a topic, whole or in part.
    private func change(
        _ project: ProjectNumber, _ topic: String, _ change: TopicOperation,
        _ tokens: ArraySlice<(index: Int, token: String)>, _ result: TopicChangeResult
    ) {
        guard let project = byNumber[project] else { return }
        for (index, token) in tokens where !result.failures.contains(where: { $0.index == index }) {
            if let instance = byToken[token] { self.change(project, topic, change, instance) }
        }
    }

    private func change(
        _ project: ProjectModel, _ topic: String, _ change: TopicOperation,
        _ instance: InstanceModel
    ) {
        switch change {
        case .subscribe: project.members[topic, default: []].insert(instance.number)
        case .unsubscribe: project.members[topic]?.remove(instance.number)
        }
    }

    private func committed(_ command: SendCommand, _ outcome: Outcome) {
        guard let id = MessageModel.id(of: command.variants[0].body), id < messages.count else {
            return fail("a message was committed that nobody sent")
        }
        let message = messages[id]
        switch outcome {
        case .accepted(let acceptance, let fanouts): accepted(message, acceptance, fanouts)
        case .refused(let error): refused(message, error)
        default: fail("message \(id) was neither accepted nor refused")
        }
    }

    private func accepted(
        _ message: MessageModel, _ acceptance: Acceptance, _ fanouts: [Fanout]
    ) {
        trace.note(
            "accepted", message.id, Int(acceptance.recipientCount),
            Int(acceptance.rateLimitedCount))
        if let number = message.number {
            // MSG-9: a repetition gets the first answer.
            guard message.idempotencyKey != nil, acceptance.messageNumber == number else {
                return fail("message \(message.id) was accepted twice")
            }
            return
        }
        message.number = acceptance.messageNumber
        checkOrder(message)
        if let due = message.sendAt, due > now {
            message.wasEarly = true
            if acceptance.recipientCount > 0 || !fanouts.isEmpty {
                fail("message \(message.id) was sent before it was due")
            }
            return
        }
        send(message, from: now, acceptance, fanouts)
    }

    /// MSG-10: notes that a scheduled message is due and sent.
    func happened(_ outcome: Outcome) {
        guard case .accepted(let acceptance, let fanouts) = outcome else { return }
        let now = self.now
        // An outcome without recipients does not name the project.
        let message = messages.first {
            guard $0.number == acceptance.messageNumber, !$0.isSent, !$0.isCancelled,
                let due = $0.sendAt, due <= now
            else { return false }
            if let fanout = fanouts.first { return fanout.project == $0.project.number }
            let audience = $0.audience
            // TTL-2: a now-or-never message has no recipients only if its audience is empty.
            guard $0.isStored else {
                return audience.isEmpty && acceptance.rateLimitedCount == 0
            }
            return $0.isOver(at: now)
                || audience.count == Int(acceptance.rateLimitedCount)
                    && !audience.contains { hasToken(instances[$0], now) }
        }
        guard let message else {
            return fail("number \(acceptance.messageNumber) was sent to nobody, or was not due")
        }
        send(message, from: message.sendAt ?? now, acceptance, fanouts)
    }

    private func send(
        _ message: MessageModel, from start: Instant, _ acceptance: Acceptance,
        _ fanouts: [Fanout]
    ) {
        trace.note(
            "sent to", message.id, Int(acceptance.recipientCount),
            Int(acceptance.rateLimitedCount))
        let now = self.now
        let isOver = start < now && message.isOver(at: now)
        distribute(
            message, to: isOver ? [] : message.audience, from: start,
            sequence: fanouts.first?.header.sequence.rawValue)
        let limited = message.limited.count
        if acceptance.rateLimitedCount != UInt64(limited)
            || acceptance.recipientCount != UInt64(message.recipients.count)
        {
            fail(
                """
                message \(message.id) should have \(message.recipients.count) recipients and \
                \(limited) over their quota; it has \(acceptance.recipientCount) and \
                \(acceptance.rateLimitedCount)
                """)
        }
    }

    /// Sends the message to those of its audience that are below their limits per minute and per hour (QUO-1).
    func distribute(
        _ message: MessageModel, to audience: Set<Int>, from start: Instant, sequence: UInt64?
    ) {
        let now = self.now
        message.send(at: now, from: start, sequence: sequence)
        // TTL-2: a now-or-never message is not throttled.
        message.recipients =
            message.isStored ? audience.filter { take(instances[$0], now) } : audience
        message.limited = audience.subtracting(message.recipients)
        trace.explain("\(message) to \(message.recipients.sorted())")
    }

    /// QUO-1: takes a token for the minute and a token for the hour; false if either is missing.
    private func take(_ instance: InstanceModel, _ now: Instant) -> Bool {
        guard hasToken(instance, now) else { return false }
        instance.minute.take()
        instance.hour.take()
        return true
    }

    private func hasToken(_ instance: InstanceModel, _ now: Instant) -> Bool {
        let hasMinute = instance.minute.hasToken(at: now.millisecondsSince1970)
        let hasHour = instance.hour.hasToken(at: now.millisecondsSince1970)
        return hasMinute && hasHour
    }

    private func refused(_ message: MessageModel, _ error: MartletError) {
        trace.note("refused", message.id, Int(error.word.rawValue))
        switch (error.word, message.target) {
        case (.unavailable, _): return
        case (.unregistered, .token(let instance)):
            if instance.isRegistered { fail("message \(message.id): the token is registered") }
        case (.quotaExceeded, .token(let instance)):
            let now = self.now.millisecondsSince1970
            if instance.minute.hasToken(at: now), instance.hour.hasToken(at: now) {
                fail("message \(message.id) was refused although the device has a token (QUO-1)")
            }
        default: fail("message \(message.id) was refused: \(error)")
        }
    }

    /// Fills all quotas, because quotas begin anew with the broker's process.
    func restarted() {
        for instance in instances {
            instance.minute.fill()
            instance.hour.fill()
        }
    }

    // MARK: Senders

    func sent(_ message: MessageModel, on connection: Int) {
        lastPlace += 1
        message.place = lastPlace
        message.lastSent = clock.now
        message.sentCount += 1
        message.connection = connection
    }

    /// Checks the order of a connection's messages. A message that was sent again may come with either sending.
    private func checkOrder(_ message: MessageModel) {
        guard message.isStored, message.sentCount == 1 else { return }
        let last = acceptedPlaces[message.connection] ?? 0
        if message.place < last {
            fail("message \(message.id) was accepted after a later message of its connection")
        }
        acceptedPlaces[message.connection] = max(last, message.place)
    }

    func answered(_ message: MessageModel, _ accepted: Accepted) {
        message.isAnswered = true
        if message.number != accepted.messageNumber {
            fail("message \(message.id) was answered with a number that was not committed")
        }
    }

    func answered(_ message: MessageModel, _ error: MartletError) {
        trace.note("answered", message.id, Int(error.word.rawValue))
        // OPS-7: a node that has not heard of a command's fate says so after some seconds.
        if error.word == .unavailable, isUnansweredForLong(message) { return }
        if message.number != nil, message.idempotencyKey == nil {
            fail("message \(message.id) was accepted and answered with \(error.word.name)")
        }
    }

    // MARK: Deliveries to devices

    func connected(_ instance: InstanceModel) { instance.highest = [0, 0, 0, 0] }

    func connectionRefused(_ error: MartletError, _ client: Int) {
        trace.note("told", client, Int(error.word.rawValue))
        switch error.word {
        case .replaced, .unavailable, .internal, .unauthenticated, .unregistered,
            .deadlineExceeded, .resourceExhausted:
            return
        default: fail("client \(client) was told \(error)")
        }
    }

    /// Checks a message on its arrival at a device.
    /// - Returns: the message's ID; nil for a message from outside the world.
    func delivered(_ deliver: Deliver, to instance: InstanceModel) -> Int? {
        deliveryCount += 1
        guard let id = MessageModel.id(of: deliver.message), id < messages.count else {
            fail("instance \(instance.number) got a message that nobody sent")
            return nil
        }
        trace.note("delivered", id, instance.number, Int(truncatingIfNeeded: deliver.streamID))
        let message = messages[id]
        guard let number = message.number else {
            fail("message \(id) came to instance \(instance.number) before it was accepted")
            return id
        }
        if !message.recipients.contains(instance.number) {
            fail("message \(id) came to instance \(instance.number), which is no recipient")
        }
        if deliver.messageNumber != number || deliver.accepted != message.accepted {
            fail("message \(id) came with the header of another")
        }
        // The application may take the message much later.
        if mayRepeat() { instance.mayTakeAgain.insert(id) }
        guard deliver.isStored else {
            if !instance.cameOnce.insert(id).inserted {
                fail("message \(id), not stored, came to instance \(instance.number) twice")
            }
            return id
        }
        if deliver.streamID <= instance.highest[message.lane] {
            fail("message \(id) came to instance \(instance.number) out of order")
        }
        instance.highest[message.lane] = deliver.streamID
        return id
    }

    func deleted(_ deleted: Deleted, by instance: InstanceModel) {
        trace.note("deleted", instance.number, Int(deleted.count), Int(deleted.streamID))
        let through = lastExcused(deleted, by: instance)
        instance.deletedThrough = max(instance.deletedThrough, through)
        guard limits.storedPerInstanceMax > 0 else {
            return fail("instance \(instance.number) was told of discarded messages: no limit")
        }
        // STO-1: a discard covers at least one message more than the limit, and no more than were sent.
        let sent = messages.count {
            $0.isStored && $0.recipients.contains(instance.number)
                && $0.sequence <= through
        }
        if deleted.count <= UInt64(limits.storedPerInstanceMax) || deleted.count > UInt64(sent) {
            fail(
                """
                instance \(instance.number) was told of \(deleted.count) discarded messages of \
                \(sent)
                """)
        }
    }

    /// The last message that a notice excuses. OPS-7: a notice with a stream ID of its own comes behind stored messages, and
    /// excuses the discarded messages alone.
    private func lastExcused(_ deleted: Deleted, by instance: InstanceModel) -> UInt64 {
        let isOfMessage = messages.contains {
            $0.sequence == deleted.streamID && $0.project === instance.project
        }
        let discarded = lastDiscarded(instance)
        guard !isOfMessage, discarded > 0 else { return deleted.streamID }
        return min(deleted.streamID, discarded)
    }

    /// TTL-4: a message came whose acknowledgement the broker had confirmed. A device that was restarted has forgotten the
    /// mark, and would hand the message to its application again.
    func repeated(_ id: Int, to instance: InstanceModel) {
        guard !mayRepeat() else { return }
        fail("message \(id) came to instance \(instance.number) after its confirmation")
    }

    func taken(_ id: Int, by instance: InstanceModel) {
        takenCount += 1
        let mayRepeat = mayRepeat() || instance.mayTakeAgain.contains(id)
        if !instance.taken.insert(id).inserted, !mayRepeat {
            fail("the application of instance \(instance.number) got message \(id) twice")
        }
    }
}

extension TopicChangeProgress {
    /// A request's tokens in the order in which the engine applies them.
    fileprivate func tokens(_ tokens: [String]) -> [(index: Int, token: String)] {
        tokens.indices.map { place in
            let index = order.isEmpty ? place : Int(order[place])
            return (index, tokens[index])
        }
    }
}
