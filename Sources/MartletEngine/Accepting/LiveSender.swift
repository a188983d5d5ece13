// SPDX-License-Identifier: Apache-2.0
//
// Sends now-or-never messages (TTL-2). The store keeps no row of a now-or-never message, so the receiving thread sends the
// message at once, from a snapshot: without another thread, a write or the disk. Each loop has a sender of its own, and the
// callers of the embedding API share a sender. Counts gather in LiveCounts. Rests on Audiences.

package import MartletBase
package import MartletRows

/// State shared by the live senders of a broker.
package struct LiveSending: Sendable {
    let programs: SharedPrograms
    let limits: LimitsInForce
    let book: FanoutBook?
    let numbers: NotStoredNumbers
    let bridgeFaults: BridgeFaults
    /// Unwritten counts of now-or-never messages.
    package let counts = LiveCounts()

    /// FAN-8: a fanout with at most this many recipients is not listed among the fanouts in progress, because a loop
    /// finishes the fanout within a turn.
    package static let untoldMax: UInt64 = 256

    /// Targets of a message that a loop resolves: some 100 microseconds. The committer sends a message with more
    /// targets, because a loop's devices wait for each look-up.
    package static let targetsMax = 64

    /// Bound on a loop's inbox for live fanouts. A loop with more waiting elements is not told, so a sender faster
    /// than the loop loses now-or-never messages there, and memory stays bounded.
    package static let waitingMax = 16_384

    /// Makes the state for all live senders of a broker. The counts begin at zero.
    /// - Parameter book: nil: now-or-never fanouts are neither bounded nor listed among the fanouts in progress
    ///   (FAN-8).
    package init(
        programs: SharedPrograms, limits: LimitsInForce, book: FanoutBook?,
        numbers: NotStoredNumbers, bridgeFaults: BridgeFaults = BridgeFaults()
    ) {
        self.programs = programs
        self.limits = limits
        self.book = book
        self.numbers = numbers
        self.bridgeFaults = bridgeFaults
    }
}

/// Sends now-or-never messages.
package struct LiveSender: ~Copyable {
    private let shared: LiveSending
    private var audiences: Audiences
    /// OPS-11: the changes of limits that `audiences` has.
    private var changeCount: UInt64
    /// The sets in `audiences` were read in the snapshot of this number or later.
    private var rememberedSince: UInt64 = 0
    /// The project of the last message.
    private var lastProject = RememberedProject()

    /// Makes a sender that has read no sets yet.
    package init(_ shared: LiveSending) {
        self.shared = shared
        changeCount = shared.limits.changeCount
        audiences = Audiences(
            programs: shared.programs, limits: shared.limits.value,
            bridgeFaults: shared.bridgeFaults)
    }

    /// Whether a live sender takes a message. All variants must be now or never, and the message must leave no work
    /// for later: no answer (MSG-9), no receipts (RCP-1), no scheduled instant (MSG-10). It has at most `targetsMax`
    /// targets, and neither `validateOnly` nor `notReceived`.
    package static func takes(_ message: SendCommand, at now: Instant) -> Bool {
        !message.validateOnly && !message.wantsReceipts && message.idempotencyKey == nil
            && message.sendAt == nil && message.notReceived == nil
            && message.target.count <= LiveSending.targetsMax && message.isNowOrNever(at: now)
    }

    /// - Parameters:
    ///   - message: accepted by `takes`.
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
        guard max > 0 && inProgressCount >= max || !book.hasLiveRoom(for: project.number) else {
            return
        }
        throw book.liveRefusal(of: project.number, at: now)
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
    /// TTL-2: whether all variants are now or never for a message accepted at `now`.
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

extension Dispatch {
    /// Makes the fanouts of a variant. A message to a single token gets a fanout for one instance, and does not wait
    /// for the fanouts in progress (FAN-5).
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
