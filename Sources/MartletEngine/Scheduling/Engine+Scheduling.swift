// SPDX-License-Identifier: Apache-2.0
//
// Accepts scheduled messages, and sends them when they are due (MSG-10). At acceptance a message is checked, and gets its
// number from the project's sequences. Everything else happens when it is sent: its audience is worked out (though a token
// stands for the instance that had it at acceptance, see Addressees), and it gets its place among the stored messages. Its
// time to live counts from the scheduled instant.
//
// A device that is over its quota by then is left out, as in any fanout (QUO-1). If the project has no room, the message is
// deferred (see Engine+Admission). Rests on Engine+Send.

package import MartletBase
package import MartletRows

/// What a step of due work did.
package struct Advance: Sendable {
    /// Messages' outcomes. As with commands, loops hear of them once the transaction is durable.
    package var outcomes: [Outcome]
    /// Whether more is due now, for another transaction.
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
    /// Bounds on a step's rows while commands wait: `rowsPerCommand` for each, at least `rowsPerHurriedStep`, at most
    /// `rowsPerStep`.
    private static let rowsPerHurriedStep = 256
    private static let rowsPerCommand = 16
    /// Unregistering one instance of a deleted app counts as so many rows of a step (REG-8).
    private static let rowsPerInstance = 32

    /// Does a bounded part of the work that is due. Call it before each batch of commands, in the same transaction, and at
    /// least once a second.
    /// - Parameter commandCount: how many commands the batch has. The more, the more rows, or due work couldn't keep
    ///   up.
    /// - Throws: `StorageError` if the store fails. Then abandon the transaction.
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
            if beginsRun { try storage.connections.beginRun(now: now) }
            hasBegun = true
        }
        advance.hasMore = try storage.connections.endAllLost(now: now, rowsMax: rowsMax)
        invariant(hasBegun, "A run of the broker begins before its due work.")
        // Inactivity first: it decides who gets the messages of this step (STO-2).
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
        // Deferred messages first: a scheduled one that is due now waits behind them.
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
            try checkEarlier(message.notReceived, in: project.number, storage)
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

    /// Sends a scheduled or deferred message.
    /// - Parameter isLate: it was deferred, so its now-or-never variants are over (TTL-2).
    mutating func send(
        _ due: ScheduledMessage, isLate: Bool = false, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        // It may have waited for longer than its time to live, or the broker may have been down for longer.
        try send(due, ending: .expired, now: now, storage) {
            (isLate || $0.isStored) && $0.expires <= now
        }
    }

    /// Sends a waiting message's variants that aren't over, and ends the others. No sender is waiting for the answer, so only
    /// the report tells what became of the message, even if nobody is left to get it (REP-4).
    /// - Parameters:
    ///   - event: the outcome for instances whose variant is over.
    ///   - isOver: whether a variant ended before it could be sent.
    private mutating func send(
        _ waiting: ScheduledMessage, ending event: ReportEvent, now: Instant,
        _ storage: borrowing Transaction, where isOver: (DispatchVariant) -> Bool
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(waiting.project) else {
            return .refused(.noProject)
        }
        let (message, addressees) = try ScheduledSend.read(waiting.bytes)
        var dispatch = Dispatch(waiting: message, from: waiting.due, number: waiting.number)
        dispatch.addressees = addressees
        var over = dispatch
        over.variants.removeAll { !isOver($0) }
        var target = ResolvedTarget.nobody
        var recipients: Recipients?
        var ended = over.variants.isEmpty ? nil : EndedVariants(event: event)
        do throws(Obstacle) {
            target = try audiences.resolve(dispatch, in: project, storage)
            if ended != nil {
                ended?.recipients = try self.recipients(
                    of: &over, among: target.instances, without: message.notReceived,
                    in: project.number, storage)
            }
            dispatch.variants.removeAll(where: isOver)
            if !dispatch.variants.isEmpty {
                recipients = try self.recipients(
                    of: &dispatch, among: target.instances, without: message.notReceived,
                    in: project.number, storage)
            }
        } catch {
            // Whoever it was for is gone.
            _ = try error.refusal()
            dispatch.variants.removeAll(where: isOver)
        }
        return try send(
            dispatch, to: recipients, of: target, beside: ended, in: project, now: now, storage)
    }

    /// Checks, when a message is accepted that will wait, that the earlier message it names has a report, or will have one
    /// because it is waiting itself (REP-2).
    func checkEarlier(
        _ number: UInt64?, in project: ProjectNumber, _ storage: borrowing Transaction
    ) throws(Obstacle) {
        guard let number,
            try rows(storage.reporting.reportSequence(ofNumber: number, in: project)) == nil,
            try rows(storage.scheduled.message(number, in: project)) == nil,
            try rows(storage.deferred.message(number, in: project)) == nil
        else { return }
        throw .refusal(.noEarlierReport)
    }

    /// Cancels a message (MSG-10): whoever hasn't got it won't. If it is still waiting, everybody counts as cancelled who
    /// would get it if it were sent now (REP-4).
    /// - Returns: `cancelled`, or `refused` if the broker doesn't know it: it never existed, everybody has it, it has expired,
    ///   or was now or never.
    mutating func cancel(
        _ messageNumber: UInt64, in number: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        if let waiting = try takeWaiting(messageNumber, in: number, storage) {
            _ = try send(waiting, ending: .cancelled, now: now, storage) { _ in true }
            return .cancelled(project: number, number: messageNumber, sequence: nil)
        }
        if let sequence = try storage.messages.sequence(ofNumber: messageNumber, in: number),
            try storage.messages.expire(sequence, in: number, now: now)
        {
            return .cancelled(project: number, number: messageNumber, sequence: sequence)
        }
        return .refused(
            MartletError(
                .notFound, "Nobody is waiting for such a message: there is nothing to cancel.",
                field: "message"))
    }

    /// Removes a scheduled or deferred message; nil if no message of this number is waiting.
    private mutating func takeWaiting(
        _ messageNumber: UInt64, in number: ProjectNumber, _ storage: borrowing Transaction
    ) throws(StorageError) -> ScheduledMessage? {
        if let scheduled = try storage.scheduled.message(messageNumber, in: number) {
            _ = try storage.scheduled.remove(messageNumber, in: number)
            return scheduled
        }
        guard let deferred = try storage.deferred.message(messageNumber, in: number) else {
            return nil
        }
        try removeDeferred(messageNumber, in: number, storage)
        return deferred
    }
}
