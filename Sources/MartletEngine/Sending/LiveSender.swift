// SPDX-License-Identifier: Apache-2.0
//
// TTL-2: messages that are now or never. Such a message changes nothing in the store, so whoever
// receives it sends it at once, from a snapshot on its own thread: no other thread is woken, nothing is
// written and no disk is waited for. Each loop has a sender of its own, and the embedding API one for
// all callers. What is counted gathers in LiveCounts. Rests on Audiences.

public import MartletBase
public import MartletRows

/// What the senders of one broker share.
public struct LiveSending: Sendable {
    let programs: SharedPrograms
    let limits: MailboxLimits
    let book: FanoutBook?
    let numbers: NotStoredNumbers
    public let counts = LiveCounts()

    /// Recipients up to which a fanout is not listed among those in progress (FAN-8): a loop is through with
    /// it in a turn.
    static let untoldMax: UInt64 = 256

    /// Targets of one message that a loop looks up by itself: some 100 microseconds. A message with more
    /// targets is sent by the committer, because a loop's devices wait for every look-up.
    public static let targetsMax = 64

    /// Elements in a loop's inbox past which it is not told of more: whoever sends faster than that loop
    /// delivers loses what is now or never there, and memory stays bounded.
    public static let waitingMax = 16_384

    public init(
        programs: SharedPrograms, limits: MailboxLimits, book: FanoutBook?,
        numbers: NotStoredNumbers
    ) {
        self.programs = programs
        self.limits = limits
        self.book = book
        self.numbers = numbers
    }
}

/// Sends what is not stored.
public struct LiveSender: ~Copyable {
    private let shared: LiveSending
    private var audiences: Audiences
    /// What `audiences` remembers was read in this snapshot or in a later one.
    private var rememberedSince: UInt64 = 0

    public init(_ shared: LiveSending) {
        self.shared = shared
        audiences = Audiences(programs: shared.programs, limits: shared.limits)
    }

    /// Whether a message is now or never for everybody, and leaves nothing behind for later: no answer
    /// to keep (MSG-9), no receipts to wait for (RCP-1), no instant to wait for (MSG-10).
    public static func takes(_ message: SendCommand, at now: Instant) -> Bool {
        !message.validateOnly && !message.wantsReceipts && message.idempotencyKey == nil
            && message.sendAt == nil && message.notReceived == nil
            && message.target.count <= LiveSending.targetsMax && message.isNowOrNever(at: now)
    }

    /// - Parameters:
    ///   - message: one that `takes` said yes to.
    ///   - inProgressCount: fanouts of the project that the caller's loop has in progress.
    /// - Returns: `accepted` with the fanouts to begin, or `refused`.
    public mutating func send(
        _ message: SendCommand, in number: ProjectNumber, inProgressCount: Int = 0, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(number) else {
            return .refused(.noProject(""))
        }
        if storage.lastSetChange(in: number) > rememberedSince {
            audiences.forget()
            rememberedSince = storage.snapshot
        }
        do {
            if message.target.isFanout { try checkRoom(project, inProgressCount, now) }
            return try accept(message, in: project, now: now, storage)
        } catch {
            return .refused(try Engine.refusal(error))
        }
    }

    private mutating func accept(
        _ message: SendCommand, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws -> Outcome {
        var dispatch = try Dispatch(message, from: now, number: nil)
        let target = try audiences.resolve(dispatch, in: project, storage)
        let recipients = try audiences.recipients(
            of: &dispatch, among: target.instances, in: project.number, storage)
        let sequence = shared.numbers.next(now)
        let stored = StoredMessage(
            sequence: sequence, number: sequence.rawValue & ~MessageSequence.notStoredBit,
            accepted: now, kind: target.kind, from: target.from, wantsReceipts: false,
            variants: [])
        let acceptance = Acceptance(
            messageNumber: stored.number, recipientCount: recipients?.count ?? 0,
            named: target.named?.results ?? .none)
        guard let recipients, recipients.count > 0 else {
            return .accepted(acceptance, fanouts: [])
        }
        let distribution = try audiences.distribution(
            of: dispatch, to: recipients, in: project.number, storage)
        shared.counts.add(
            try audiences.shares(of: recipients, in: project, storage), of: project.number,
            at: now)
        let progress = enter(dispatch, stored, distribution, in: project)
        var fanouts: [Fanout] = []
        for (variant, recipients) in zip(dispatch.variants, distribution.perVariant) {
            guard let recipients else { continue }
            fanouts += dispatch.fanouts(
                of: variant, stored.header(of: variant.stored), to: recipients, in: project,
                progress)
        }
        return .accepted(acceptance, fanouts: fanouts)
    }

    private func checkRoom(
        _ project: Project, _ inProgressCount: Int, _ now: Instant
    ) throws(MartletError) {
        guard let book = shared.book else { return }
        let max = shared.limits.fanoutsInProgressMax
        guard max > 0 && inProgressCount >= max || !book.hasLiveRoom(for: project.number) else {
            return
        }
        throw MartletError(
            .resourceExhausted,
            """
            The project has as many messages to many instances in progress as it may, and this \
            cannot wait.
            """, field: "target",
            retryDelayMilliseconds: book.retryMilliseconds(for: project.number, at: now))
    }

    private func enter(
        _ dispatch: Dispatch, _ message: StoredMessage, _ distribution: Distribution,
        in project: Project
    ) -> FanoutProgress? {
        guard distribution.recipientCount > LiveSending.untoldMax, let book = shared.book,
            let progress = dispatch.progress(of: message, distribution, in: project, book: book)
        else { return nil }
        book.enter(progress)
        return progress
    }
}

extension SendCommand.Target {
    fileprivate var count: Int {
        if case .several(let targets) = self { targets.count } else { 1 }
    }
}

extension SendCommand {
    /// TTL-2: whether nothing of it is stored that is accepted at `now`.
    func isNowOrNever(at now: Instant) -> Bool {
        variants.allSatisfy { $0.lifespan.isOver(at: now) }
    }
}

extension Lifespan {
    fileprivate func isOver(at now: Instant) -> Bool {
        switch self {
        case .seconds(let seconds): seconds == 0
        case .until(let end): end <= now
        }
    }
}

extension Dispatch {
    /// The fanouts of one variant. A message to one token does not wait for those in progress (FAN-5).
    func fanouts(
        of variant: DispatchVariant, _ header: MessageHeader, to recipients: Recipients,
        in project: Project, _ progress: FanoutProgress?
    ) -> [Fanout] {
        func fanout(_ recipients: Recipients) -> Fanout {
            Fanout(
                project: project.number, header: header, body: variant.variant.body,
                recipients: recipients, position: project.lastSequence, weight: project.weight,
                progress: progress)
        }
        if case .one = recipients { return [fanout(recipients)] }
        return target.isFanout ? [fanout(recipients)] : recipients.single.map(fanout)
    }
}
