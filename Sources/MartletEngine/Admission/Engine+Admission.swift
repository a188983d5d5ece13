// SPDX-License-Identifier: Apache-2.0
//
// Limits how many messages to many a project may have in progress, by count and by bytes (FAN-1, QUO-5). Beyond that
// a message is deferred: it is stored, the sender is told its number, and its audience is worked out when it begins. Its time
// to live counts from acceptance, or from the scheduled instant.
//
// A project's deferred messages begin in the order of their numbers, and new ones wait behind them. If too many wait, or the
// project refuses instead of deferring, a message is refused with a retry delay. A message to one token never waits. Rests
// on FanoutBook and Engine+Scheduling.

import MartletBase
import MartletRows

extension SendCommand.Target {
    /// Whether the target may be more than one instance.
    var isFanout: Bool {
        switch self {
        case .token: false
        case .group, .topic, .condition: true
        case .several(let targets): targets.count > 1 || targets.contains(where: \.isFanout)
        }
    }

    /// The target in the broker's answers: of several targets, the first eight.
    var told: SendCommand.Target {
        guard case .several(let targets) = self, targets.count > Self.targetsToldMax else {
            return self
        }
        return .several(Array(targets.prefix(Self.targetsToldMax)))
    }

    private static var targetsToldMax: Int { 8 }
}

extension Engine {
    // MARK: Accepting

    /// Defers a message if its project has no room. A now-or-never message is refused instead.
    /// - Returns: the outcome of a deferred message; `refused` for a fault of the message, or if the message may not
    ///   wait; nil if the message may begin.
    mutating func `defer`(
        _ message: SendCommand, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome? {
        guard let book, message.target.isFanout else { return nil }
        // A now-or-never message doesn't wait, and doesn't take a stored message's place (TTL-2).
        guard !message.isNowOrNever(at: now) else {
            guard book.hasNowOrNeverRoom(for: project.number) else {
                return .refused(book.nowOrNeverRefusal(of: project.number, at: now))
            }
            return nil
        }
        guard try mustWait(project.number, storage) else { return nil }
        let dispatch: Dispatch
        var named: NamedResults
        do throws(Obstacle) {
            dispatch = try checked(
                Dispatch(message, from: now, within: MessageBounds(project, limits)))
            named = try audiences.check(dispatch, in: project, storage)
            try checkEarlier(message.notReceived, in: project.number, storage)
            // Count the group's present members: 0 successes and 0 failures would mean that it is empty (GRP-5).
            if case .group(let text) = dispatch.target {
                named = try audiences.members(
                    of: text, for: dispatch, in: project.number, storage
                ).results
            }
        } catch {
            return .refused(try error.refusal())
        }
        let count = admission.count(of: project.number)
        let mayWait = limits.fanoutsDeferredMax == 0 || count < limits.fanoutsDeferredMax
        guard project.overload == .defer, mayWait else {
            return .refused(
                overload(
                    of: project, waiting: count,
                    retryMilliseconds: book.retryMilliseconds(for: project.number, at: now)))
        }
        // `validateOnly` is answered with the recipients as of now (MSG-7).
        guard !message.validateOnly else { return nil }
        var project = project
        project.lastSequence = MessageSequence(project.lastSequence.rawValue + 1)
        try storage.projects.put(project, isNew: false)
        return try wait(
            ScheduledMessage(
                project: project.number, number: project.lastSequence.rawValue, due: now,
                bytes: ScheduledSend.bytes(
                    of: dispatch.settled(message),
                    to: try Addressees(of: message.target, in: project.number, storage))),
            named: named, storage)
    }

    /// Defers a scheduled message that is due, if its project has no room. However many wait: it was accepted long ago.
    /// - Returns: the outcome of a deferred message; nil if the message may begin.
    mutating func `defer`(
        _ due: ScheduledMessage, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome? {
        guard try mustWait(due.project, storage) else { return nil }
        let message = try ScheduledSend.message(due.bytes)
        guard message.target.isFanout, !message.isNowOrNever(at: due.due) else { return nil }
        return try wait(due, storage)
    }

    private mutating func mustWait(
        _ project: ProjectNumber, _ storage: borrowing Transaction
    ) throws(StorageError) -> Bool {
        guard let book else { return false }
        try learnDeferred(storage)
        return admission.count(of: project) > 0 || !book.hasRoom(for: project)
    }

    private mutating func wait(
        _ message: ScheduledMessage, named: NamedResults = .none,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        try storage.deferred.put(message)
        admission.change(message.project, by: 1)
        invariant(admission.count(of: message.project) > 0, "A deferred message is counted.")
        let place = UInt64(admission.count(of: message.project))
        return .accepted(
            Acceptance(
                messageNumber: message.number, recipientCount: 0, deferredPlace: place,
                named: named), fanouts: [])
    }

    private func overload(
        of project: Project, waiting: Int, retryMilliseconds: UInt32
    ) -> MartletError {
        let why =
            waiting > 0
            ? "and \(waiting) messages wait"
            : project.overload == .refuse ? "and wants no more to wait" : "and this cannot wait"
        return MartletError(
            .resourceExhausted,
            "The project has as many messages to many instances in progress as it may, \(why).",
            field: "target", retryDelayMilliseconds: retryMilliseconds)
    }

    /// Enters a message's fanout in the book.
    /// - Returns: the fanout's progress; nil for a message to one instance, or without recipients.
    mutating func enter(
        _ dispatch: Dispatch, _ message: StoredMessage, _ distribution: Distribution,
        in project: Project
    ) -> FanoutProgress? {
        guard let book,
            let progress = dispatch.progress(
                of: message, distribution, in: project, book: book)
        else { return nil }
        admission.enter(progress, in: book)
        return progress
    }

    // MARK: Beginning deferred messages

    /// Begins at most `max` deferred messages whose projects have room. Projects take turns.
    mutating func beginDeferred(
        _ max: Int, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> [Outcome] {
        try learnDeferred(storage)
        var outcomes: [Outcome] = []
        while outcomes.count < max, let project = nextToServe {
            admission.lastServed = project
            guard let next = try storage.deferred.messages(in: project, after: 0, limit: 1).first
            else {
                throw StorageError(
                    operation: "read deferred", code: 0,
                    text: "a message that waits is missing; run 'martlet check'", isFull: false)
            }
            try removeDeferred(next.number, in: project, storage)
            outcomes.append(try send(next, isLate: true, now: now, storage))
        }
        invariant(outcomes.count <= max, "A step begins a bounded number of deferred messages.")
        return outcomes
    }

    /// The next project that has deferred messages and room, by number, after the one that was served last.
    private var nextToServe: ProjectNumber? {
        let ready = (admission.counts ?? [:]).keys.filter { book?.hasRoom(for: $0) ?? true }
        let behind = ready.filter { number in admission.lastServed.map { number > $0 } ?? true }
        return (behind.isEmpty ? ready : behind).min()
    }

    /// Whether a deferred message could begin now.
    package var canBeginDeferred: Bool { !isShortOfRoom && nextToServe != nil }

    /// Removes a deferred message of the project.
    mutating func removeDeferred(
        _ number: UInt64, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        try learnDeferred(storage)
        guard try storage.deferred.remove(number, in: project) else { return }
        admission.change(project, by: -1)
    }

    /// Reads the counts of deferred messages, at the start and after a failed transaction.
    private mutating func learnDeferred(
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        if !admission.isKnown { admission.know(try storage.deferred.counts()) }
    }
}
