// SPDX-License-Identifier: Apache-2.0
//
// MSG-10: scheduled messages. A fault of a message is reported at acceptance. The number comes from the project's
// sequences at acceptance. The audience is computed at sending, except that a token stands for its instance at
// acceptance (see Addressees). The place among the stored messages is given at sending. The time to live counts from
// the scheduled instant.
//
// A device over its quota at sending (QUO-1) is left out, as in any fanout. If the project has no room at sending,
// the message is deferred (see Engine+Admission). Rests on Engine+Send.

package import MartletBase
package import MartletRows

/// The result of a step of due work.
package struct Advance: Sendable {
    /// Outcomes of messages. The loops are told once the transaction is durable, as for commands.
    package var outcomes: [Outcome]
    /// Whether more work is due now. The caller continues in another transaction.
    package var hasMore: Bool

    package init(outcomes: [Outcome], hasMore: Bool) {
        self.outcomes = outcomes
        self.hasMore = hasMore
    }
}

extension Engine {
    /// Bounds of a step: `sendsPerStep` deferred messages and as many scheduled messages; `rowsPerStep` rows of lost
    /// connections, and as many due rows.
    private static let sendsPerStep = 64
    private static let rowsPerStep = 1024
    /// Bounds on the rows of a step while commands wait: `rowsPerCommand` for each command, at least
    /// `rowsPerHurriedStep`, at most `rowsPerStep`.
    private static let rowsPerHurriedStep = 256
    private static let rowsPerCommand = 16
    /// REG-8: rows of a step that stand for the unregistration of one instance of a deleted app.
    private static let rowsPerInstance = 32

    /// Does a bounded part of the due work. The caller calls `advance` before each batch of commands, in the
    /// transaction of the batch, and at least once a second.
    /// - Parameter commandCount: the commands of the batch. More commands allow more rows, so due work keeps up with
    ///   new messages.
    /// - Throws: `StorageError` if the store fails. The transaction must then be abandoned.
    package mutating func advance(
        now: Instant, commandCount: Int = 0, in storage: borrowing Transaction
    ) throws(StorageError) -> Advance {
        let rowsMax =
            commandCount == 0
            ? Self.rowsPerStep
            : min(
                max(commandCount * Self.rowsPerCommand, Self.rowsPerHurriedStep), Self.rowsPerStep)
        var advance = Advance(outcomes: [], hasMore: false)
        if !hasBegun {
            if !isOfCluster { try storage.connections.beginRun(now: now) }
            hasBegun = true
        }
        advance.hasMore = try storage.connections.endAllLost(
            now: now, limits: limits, rowsMax: rowsMax)
        invariant(hasBegun, "A run of the broker begins before its due work.")
        // Inactivity comes first, because it decides who gets the messages sent in the step (STO-2).
        if try storage.sweeping.isInactivityDue(now: now, limits: limits) {
            audiences.lastTopic?.forgetDistributions()
        }
        if try storage.sweeping.sweep(now: now, limits: limits, rowsMax: rowsMax) {
            advance.hasMore = true
        }
        let emptied = try emptyDeletedApps(
            countMax: max(1, rowsMax / Self.rowsPerInstance), now: now, storage)
        advance.outcomes = emptied
        if try storage.apps.nextLeaving() != nil { advance.hasMore = true }
        guard !isShortOfRoom else { return advance }
        // Deferred messages come first: a scheduled message that becomes due now waits behind them.
        advance.outcomes += try beginDeferred(Self.sendsPerStep, now: now, storage)
        for _ in 0..<Self.sendsPerStep {
            guard let due = try storage.scheduled.next(dueAt: now) else { break }
            _ = try storage.scheduled.remove(due.number, in: due.project)
            if let deferred = try `defer`(due, storage) {
                advance.outcomes.append(deferred)
            } else {
                advance.outcomes.append(try send(due, now: now, storage))
            }
        }
        invariant(
            advance.outcomes.count <= 2 * Self.sendsPerStep, "A step of due work is bounded.")
        if try storage.scheduled.next(dueAt: now) != nil || canBeginDeferred {
            advance.hasMore = true
        }
        return advance
    }

    mutating func schedule(
        _ message: SendCommand, due: Instant, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard due <= now.advanced(bySeconds: Int64(Limits.scheduleSecondsMax)) else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "A message can be scheduled \(Limits.scheduleSecondsMax) seconds ahead at most.",
                    field: "send_at"))
        }
        let dispatch: Dispatch
        let named: NamedResults
        do throws(Obstacle) {
            dispatch = try checked(
                Dispatch(message, from: due, within: MessageBounds(project, limits)))
            named = try audiences.check(dispatch, in: project, storage)
        } catch {
            return .refused(try error.refusal())
        }
        if message.validateOnly { return Self.validated(0, named) }
        guard
            try storage.scheduled.count(in: project.number)
                < UInt64(Limits.scheduledPerProjectMax)
        else {
            return .refused(
                MartletError(
                    .resourceExhausted,
                    """
                    \(Limits.scheduledPerProjectMax) messages of the project are scheduled; no more \
                    are allowed until one is sent or cancelled.
                    """, field: "send_at"))
        }
        var project = project
        project.lastSequence = MessageSequence(project.lastSequence.rawValue + 1)
        let number = project.lastSequence.rawValue
        try storage.projects.put(project, isNew: false)
        try storage.scheduled.put(
            ScheduledMessage(
                project: project.number, number: number, due: due,
                bytes: ScheduledSend.bytes(
                    of: dispatch.settled(message),
                    to: try Addressees(of: message.target, in: project.number, storage))))
        return .accepted(
            Acceptance(messageNumber: number, recipientCount: 0, named: named), fanouts: [])
    }

    /// Sends a scheduled or deferred message. If nobody is left who could get it, its report says so, as no sender waits.
    /// - Parameter isLate: the message was deferred. Its now-or-never variants are over (TTL-2).
    mutating func send(
        _ due: ScheduledMessage, isLate: Bool = false, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(due.project) else {
            return .refused(.noProject)
        }
        let (message, addressees) = try ScheduledSend.read(due.bytes)
        var dispatch = Dispatch(waiting: message, from: due.due, number: due.number)
        dispatch.addressees = addressees
        // The broker may have been stopped for longer than the time to live.
        dispatch.variants.removeAll { (isLate || $0.isStored) && $0.expires <= now }
        var target = ResolvedTarget.nobody
        var recipients: Recipients?
        do throws(Obstacle) {
            target = try audiences.resolve(dispatch, in: project, storage)
            recipients = try self.recipients(
                of: &dispatch, among: target.instances, without: message.notReceived,
                in: project.number, storage)
        } catch {
            // REP-3: whom the message was for is gone, which only its report tells.
            _ = try error.refusal()
        }
        return try send(dispatch, to: recipients, of: target, in: project, now: now, storage)
    }

    /// MSG-10: cancels a message. Recipients without the message will not get it.
    /// - Returns: `cancelled`; `refused` if the broker does not know the message, because the message never existed,
    ///   is with all recipients, has expired, or was now or never.
    mutating func cancel(
        _ messageNumber: UInt64, in number: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var isWaiting = try storage.scheduled.remove(messageNumber, in: number)
        if !isWaiting { isWaiting = try removeDeferred(messageNumber, in: number, storage) }
        if isWaiting {
            return .cancelled(project: number, number: messageNumber, sequence: nil)
        }
        if let sequence = try storage.messages.sequence(ofNumber: messageNumber, in: number),
            try storage.messages.expire(sequence, in: number, now: now)
        {
            return .cancelled(project: number, number: messageNumber, sequence: sequence)
        }
        return .refused(
            MartletError(
                .notFound, "No such message waits for anybody: there is nothing to cancel.",
                field: "message"))
    }
}
