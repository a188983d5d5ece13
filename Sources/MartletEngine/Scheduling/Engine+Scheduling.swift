// SPDX-License-Identifier: Apache-2.0
//
// MSG-10: messages for later. A fault of such a message is told when it is accepted. Its audience is made
// when it is sent; a token stands for the instance that had it when the message was accepted (see
// Addressees). Its life counts from the instant for which it was scheduled. Its number is taken from the project's sequences when it is accepted, its place among the
// stored messages when it is sent. A device that is over a limit by then (QUO-1) is skipped, as in any
// fanout. If its project has no room for it then, it waits for that (see Engine+Admission). Rests on
// Engine+Send.

public import MartletBase
public import MartletRows

/// What happened by itself.
public struct Advance: Sendable {
    /// To be told to the loops once they are durable, as those of commands are.
    public var outcomes: [Outcome]
    /// There is more to do at the same instant: to be called again, in another transaction.
    public var hasMore: Bool

    public init(outcomes: [Outcome], hasMore: Bool) {
        self.outcomes = outcomes
        self.hasMore = hasMore
    }
}

extension Engine {
    /// Scheduled messages that are sent in one step, and rows of the store that are seen to.
    private static let sendsPerStep = 64
    private static let rowsPerStep = 1024
    /// The same where commands wait, and of each of them.
    private static let rowsPerHurriedStep = 256
    private static let rowsPerCommand = 16

    /// Does a bounded part of what is due: to be called before each batch of commands, in its
    /// transaction, and at least once a second.
    /// - Parameter commandCount: of the batch. What is due keeps up with what comes.
    /// - Throws: where the store is in trouble; then the transaction must be abandoned.
    public mutating func advance(
        now: Instant, commandCount: Int = 0, in storage: borrowing Transaction
    ) throws(StorageError) -> Advance {
        let rowsMax =
            commandCount == 0
            ? Self.rowsPerStep
            : min(
                max(commandCount * Self.rowsPerCommand, Self.rowsPerHurriedStep), Self.rowsPerStep)
        var advance = Advance(outcomes: [], hasMore: false)
        if !hasBegun {
            try storage.connections.beginRun(now: now)
            hasBegun = true
        }
        advance.hasMore = try storage.connections.endAllLost(
            now: now, limits: limits, rowsMax: rowsMax)
        // First, so that what is sent now finds who is inactive by now (STO-2).
        if try storage.sweeping.isInactivityDue(now: now, limits: limits) {
            audiences.lastTopic?.forgetDistributions()
        }
        if try storage.sweeping.sweep(now: now, limits: limits, rowsMax: rowsMax) {
            advance.hasMore = true
        }
        guard !isShortOfRoom else { return advance }
        // Before what comes due now: that waits behind them.
        advance.outcomes = try beginDeferred(Self.sendsPerStep, now: now, storage)
        for _ in 0..<Self.sendsPerStep {
            guard let due = try storage.scheduled.next(dueAt: now) else { break }
            _ = try storage.scheduled.remove(due.number, in: due.project)
            if let deferred = try `defer`(due, storage) {
                advance.outcomes.append(deferred)
            } else {
                advance.outcomes.append(try send(due, now: now, storage))
            }
        }
        if try storage.scheduled.next(dueAt: now) != nil || canBeginDeferred {
            advance.hasMore = true
        }
        return advance
    }

    mutating func schedule(
        _ message: SendCommand, due: Instant, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws -> Outcome {
        guard due <= now.advanced(bySeconds: Int64(Limits.scheduleSecondsMax)) else {
            throw MartletError(
                .invalidArgument,
                "A message can be scheduled \(Limits.scheduleSecondsMax) seconds ahead at most.",
                field: "send_at")
        }
        let named = try audiences.check(
            try Dispatch(message, from: due, number: nil), in: project, storage)
        if message.validateOnly { return Self.validated(0, named) }
        guard
            try storage.scheduled.count(in: project.number)
                < UInt64(Limits.scheduledPerProjectMax)
        else {
            throw MartletError(
                .resourceExhausted,
                """
                \(Limits.scheduledPerProjectMax) messages of the project are scheduled; no more are \
                allowed until one is sent or cancelled.
                """, field: "send_at")
        }
        var project = project
        project.lastSequence = MessageSequence(project.lastSequence.rawValue + 1)
        let number = project.lastSequence.rawValue
        try storage.projects.put(project, isNew: false)
        try storage.scheduled.put(
            ScheduledMessage(
                project: project.number, number: number, due: due,
                bytes: ScheduledSend.bytes(
                    of: message,
                    to: try Addressees(of: message.target, in: project.number, storage))))
        return .accepted(
            Acceptance(messageNumber: number, recipientCount: 0, named: named), fanouts: [])
    }

    /// Sends a message that has waited. Nobody is there to be told if it cannot be sent any more.
    /// - Parameter isLate: it had to wait longer than it was to: now or never is over (TTL-2).
    mutating func send(
        _ due: ScheduledMessage, isLate: Bool = false, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(due.project) else {
            return .refused(.noProject(""))
        }
        do {
            let (message, addressees) = try ScheduledSend.read(due.bytes)
            var dispatch = try Dispatch(message, from: due.due, number: due.number)
            dispatch.addressees = addressees
            // The broker may have been away for longer than it was to live.
            dispatch.variants.removeAll { (isLate || $0.isStored) && $0.expires <= now }
            let target = try audiences.resolve(dispatch, in: project, storage)
            let recipients = try recipients(
                of: &dispatch, among: target.instances, without: message.notReceived,
                in: project.number, storage)
            return try send(dispatch, to: recipients, of: target, in: project, now: now, storage)
        } catch {
            return .refused(try Self.refusal(error))
        }
    }

    /// Whoever has not got the message does not get it. It can be known no more: because it never was,
    /// because everybody has it, because it expired, or because it was now or never.
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
