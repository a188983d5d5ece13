// SPDX-License-Identifier: Apache-2.0
//
// Sends now-or-never messages (TTL-2). They leave no row in the store, so the thread that receives one sends it at once from
// a snapshot, without another thread, a write or the disk. Each loop has its own sender; callers of the embedding API share
// one. Counts gather in NowOrNeverCounts. Rests on Audiences.

package import MartletBase
package import MartletRows

/// What a broker's senders of now-or-never messages share.
package struct NowOrNeverSending: Sendable {
    let programs: SharedPrograms
    let limits: LimitsInForce
    let book: FanoutBook?
    let numbers: NowOrNeverNumbers
    let bridgeFaults: BridgeFaults
    /// Unwritten counts of now-or-never messages.
    package let counts = NowOrNeverCounts()

    /// Fanouts with at most this many recipients aren't listed as in progress, because a loop finishes them within a turn
    /// (FAN-8).
    package static let untoldMax: UInt64 = 256

    /// Most targets that a loop works out: some 100 microseconds. With more the committer sends the message, because the
    /// loop's devices wait meanwhile.
    package static let targetsMax = 64

    /// If more than this waits in a loop's inbox, it isn't told of these fanouts. So memory stays bounded, and a sender that is faster
    /// than the loop loses messages there.
    package static let waitingMax = 16_384

    /// - Parameter book: if nil, now-or-never fanouts are neither bounded nor listed as in progress (FAN-8).
    package init(
        programs: SharedPrograms, limits: LimitsInForce, book: FanoutBook?,
        numbers: NowOrNeverNumbers, bridgeFaults: BridgeFaults = BridgeFaults()
    ) {
        self.programs = programs
        self.limits = limits
        self.book = book
        self.numbers = numbers
        self.bridgeFaults = bridgeFaults
    }
}

/// Sends now-or-never messages.
package struct NowOrNeverSender: ~Copyable {
    private let shared: NowOrNeverSending
    private var audiences: Audiences
    /// How many changes of limits `audiences` has seen (OPS-11).
    private var changeCount: UInt64
    /// The sets in `audiences` are from the snapshot of this number, or later ones.
    private var rememberedSince: UInt64 = 0
    /// The project of the last message.
    private var lastProject = RememberedProject()

    /// Makes a sender that has read no sets yet.
    package init(_ shared: NowOrNeverSending) {
        self.shared = shared
        changeCount = shared.limits.changeCount
        audiences = Audiences(
            programs: shared.programs, limits: shared.limits.value,
            bridgeFaults: shared.bridgeFaults)
    }

    /// Whether such a sender takes a message. All variants must be now or never, and nothing may be left to do later: no
    /// answer to keep (MSG-9), no receipts (RCP-1), no schedule (MSG-10), at most `targetsMax` targets, and neither
    /// `validateOnly` nor `notReceived`.
    package static func takes(_ message: SendCommand, at now: Instant) -> Bool {
        !message.validateOnly && !message.options.wantsReceipts && message.idempotencyKey == nil
            && message.sendAt == nil && message.notReceived == nil
            && message.target.count <= NowOrNeverSending.targetsMax && message.isNowOrNever(at: now)
    }

    /// - Parameters:
    ///   - message: one that `takes` accepts.
    ///   - inProgressCount: the project's now-or-never fanouts in progress on the caller's loop.
    /// - Returns: `accepted` with the fanouts to begin, or `refused`.
    package mutating func send(
        _ message: SendCommand, in number: ProjectNumber, inProgressCount: Int = 0, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        if changeCount != shared.limits.changeCount {
            changeCount = shared.limits.changeCount
            audiences.limits = shared.limits.value
        }
        guard let project = try storage.projects.project(number, remembered: &lastProject) else {
            return .refused(.noProject)
        }
        if storage.lastSetChange(in: number) > rememberedSince {
            audiences.forget()
            rememberedSince = storage.snapshot
        }
        var dispatch: Dispatch
        let target: ResolvedTarget
        let recipients: Recipients?
        do throws(Obstacle) {
            if message.target.isFanout {
                try checked(checkRoom(project, inProgressCount, now))
            }
            dispatch = try checked(
                Dispatch(
                    message, from: now, within: MessageBounds(project, audiences.limits)))
            target = try audiences.resolve(dispatch, in: project, storage)
            recipients = try audiences.recipients(
                of: &dispatch, among: target.instances, in: project.number, storage)
        } catch {
            return .refused(try error.refusal())
        }
        return try send(
            dispatch, to: recipients, of: target, in: project, now: now, storage)
    }

    private mutating func send(
        _ dispatch: Dispatch, to recipients: Recipients?, of target: ResolvedTarget,
        in project: Project, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        let sequence = shared.numbers.next(now)
        invariant(!sequence.isStored, "A message without a row takes no sequence.")
        let stored = StoredMessage(
            sequence: sequence, number: sequence.rawValue & ~MessageSequence.nowOrNeverBit,
            accepted: now, kind: target.kind, from: target.from, options: dispatch.options,
            variants: [])
        let acceptance = Acceptance(
            messageNumber: stored.number, recipientCount: recipients?.count ?? 0,
            named: target.named?.results ?? .none)
        guard let recipients, recipients.count > 0 else {
            return .accepted(acceptance, fanouts: [])
        }
        let distribution = try audiences.distribution(
            of: dispatch, to: recipients, in: project.number, storage)
        if let app = audiences.onlyApp(of: recipients, in: project) {
            shared.counts.add(recipients.count, of: app, in: project.number, at: now)
        } else {
            shared.counts.add(
                try audiences.shares(of: recipients, in: project, storage), of: project.number,
                at: now)
        }
        let progress = enter(dispatch, stored, distribution, in: project)
        invariant(
            dispatch.variants.count == distribution.perVariant.count,
            "Each variant has its recipients.")
        var fanouts: [Fanout] = []
        for index in dispatch.variants.indices {
            guard let recipients = distribution.perVariant[index] else { continue }
            let more = dispatch.fanouts(
                of: dispatch.variants[index],
                stored.header(of: dispatch.variants[index].stored), to: recipients, in: project,
                progress)
            fanouts = fanouts.isEmpty ? more : fanouts + more
        }
        return .accepted(acceptance, fanouts: fanouts)
    }

    private func checkRoom(
        _ project: Project, _ inProgressCount: Int, _ now: Instant
    ) throws(MartletError) {
        guard let book = shared.book else { return }
        let max = audiences.limits.fanoutsInProgressMax
        guard max > 0 && inProgressCount >= max || !book.hasNowOrNeverRoom(for: project.number)
        else {
            return
        }
        throw book.nowOrNeverRefusal(of: project.number, at: now)
    }

    private func enter(
        _ dispatch: Dispatch, _ message: StoredMessage, _ distribution: Distribution,
        in project: Project
    ) -> FanoutProgress? {
        guard distribution.recipientCount > NowOrNeverSending.untoldMax, let book = shared.book,
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
    /// Whether all variants are now or never, if the message is accepted at `now` (TTL-2).
    func isNowOrNever(at now: Instant) -> Bool {
        variants.indices.allSatisfy { variants[$0].lifespan.isOver(at: now) }
    }
}

extension Lifespan {
    fileprivate func isOver(at now: Instant) -> Bool {
        switch self {
        case .seconds(let seconds): seconds == 0
        case .until(let end): end <= now
        case .longest: false
        }
    }
}
