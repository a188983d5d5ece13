// SPDX-License-Identifier: Apache-2.0
//
// Accepts a message. Its target becomes a set of instances as of now (CON-5). Message and set are stored once, and go when
// every recipient has the message: for a large set a later job finds that out. So the cost is per block of instances, not per instance. Rests on Audiences and DeviceRates.

import MartletBase
import MartletBits
import MartletRows

extension Engine {
    mutating func send(
        _ message: SendCommand, in number: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(number) else {
            return .refused(.noProject)
        }
        if let known = try answer(to: message, in: project.number, now: now, storage) {
            return known
        }
        let outcome: Outcome
        if let due = message.sendAt, due > now {
            outcome = try schedule(message, due: due, in: project, now: now, storage)
        } else if let deferred = try `defer`(message, in: project, now: now, storage) {
            outcome = deferred
        } else {
            outcome = try begin(message, in: project, now: now, storage)
        }
        try keepAnswer(outcome, to: message, in: project.number, now: now, storage)
        return outcome
    }

    /// Sends a message that has nothing to wait for. With `validateOnly` it is only checked (MSG-7).
    private mutating func begin(
        _ message: SendCommand, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var dispatch: Dispatch
        let target: ResolvedTarget
        let recipients: Recipients?
        do throws(Obstacle) {
            dispatch = try checked(
                Dispatch(message, from: now, within: MessageBounds(project, limits)))
            target = try audiences.resolve(dispatch, in: project, storage)
            recipients = try self.recipients(
                of: &dispatch, among: target.instances, without: message.notReceived,
                in: project.number, storage)
        } catch {
            return .refused(try error.refusal())
        }
        guard message.validateOnly else {
            return try send(
                dispatch, to: recipients, of: target, in: project, now: now, storage)
        }
        if message.asksAllowance, case .one(let ordinal) = recipients {
            var acceptance = Acceptance(messageNumber: 0, recipientCount: 1)
            acceptance.allowance = DeviceAllowance(
                messages: rates.left(ordinal, in: project.number, at: now),
                upstream: upstreamRates.left(ordinal, in: project.number, at: now))
            return .accepted(acceptance, fanouts: [])
        }
        if dispatch.isStored, case .one(let ordinal) = recipients,
            let delay = rates.delay(ordinal, in: project.number, at: now)
        {
            return .refused(overQuota(delay))
        }
        return Self.validated(recipients?.count ?? 0, target.named?.results ?? .none)
    }

    static func validated(_ recipientCount: UInt64, _ named: NamedResults) -> Outcome {
        .accepted(
            Acceptance(messageNumber: 0, recipientCount: recipientCount, named: named),
            fanouts: [])
    }

    /// Sends a message to `recipients`. It has been checked.
    /// - Parameter ended: which variants ended while the message waited.
    /// - Returns: `refused` if the only recipient is over its quota (QUO-1). If the message has waited, the device is just left
    ///   out, because no sender is waiting for the answer.
    mutating func send(
        _ dispatch: Dispatch, to recipients: Recipients?, of target: ResolvedTarget,
        beside ended: EndedVariants? = nil, in project: Project, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var distribution: Distribution?
        var named = target.named
        if let recipients {
            switch try distribute(dispatch, to: recipients, in: project.number, now: now, storage) {
            case .some(let found, let granted):
                distribution = found
                distribution?.granted = granted
                named?.refuse(recipients, beside: granted)
            case .nobody(let retryMilliseconds):
                if dispatch.number == nil { return .refused(overQuota(retryMilliseconds)) }
            }
        }
        var project = project
        let sequence: MessageSequence
        // A message that has waited gets a report even if it reaches nobody, or not all (REP-4), and a report needs a
        // sequence.
        if dispatch.isStored || ended != nil || dispatch.number != nil && recipients == nil {
            sequence = MessageSequence(project.lastSequence.rawValue + 1)
            invariant(
                sequence.isStored, "Sequences stay below the numbers of now-or-never messages.")
            project.lastSequence = sequence
            try storage.projects.put(project, isNew: false)
        } else {
            sequence = nowOrNeverNumbers.next(now)
        }
        let message = StoredMessage(
            sequence: sequence,
            number: dispatch.number ?? sequence.rawValue & ~MessageSequence.nowOrNeverBit,
            accepted: now, kind: target.kind, from: target.from,
            options: dispatch.options,
            variants: dispatch.variants.compactMap { $0.isStored ? $0.stored : nil })
        try beginReport(
            of: message, distribution, among: recipients, beside: ended, in: project, storage)
        guard let distribution else {
            return .accepted(
                Acceptance(
                    messageNumber: message.number, recipientCount: 0,
                    rateLimitedCount: recipients?.count ?? 0, named: named?.results ?? .none),
                fanouts: [])
        }
        try store(message, distribution, in: project.number, now: now, storage)
        return .accepted(
            Acceptance(
                messageNumber: message.number, recipientCount: distribution.recipientCount,
                rateLimitedCount: distribution.rateLimitedCount,
                inactiveCount: distribution.inactive?.count ?? 0,
                named: named?.results ?? .none),
            fanouts: try fanouts(of: dispatch, message, distribution, in: project, storage))
    }

    private func overQuota(_ retryMilliseconds: UInt64) -> MartletError {
        let counts = [
            (limits.deviceMessagesPerMinute, "minute"), (limits.deviceMessagesPerHour, "hour"),
        ]
        let quota = counts.filter { $0.0 > 0 }.map { "\($0.0) messages a \($0.1)" }
        return MartletError(
            .quotaExceeded, "A device gets at most \(quota.joined(separator: " and ")).",
            field: "token", retryDelayMilliseconds: UInt32(clamping: retryMilliseconds))
    }

    private func store(
        _ message: StoredMessage, _ distribution: Distribution, in project: ProjectNumber,
        now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) {
        if let recipients = distribution.stored {
            try storage.accepting.append(message, recipients: recipients, in: project)
        }
        if let recipients = distribution.inactive {
            try storage.accepting.appendDiscarded(
                message.sequence, accepted: now,
                expires: now.advanced(bySeconds: Int64(limits.discardNoticeSeconds)),
                recipients: recipients, in: project)
        }
    }

    /// Makes a fanout for each variant that has recipients.
    private mutating func fanouts(
        of dispatch: Dispatch, _ message: StoredMessage, _ distribution: Distribution,
        in project: Project, _ storage: borrowing Transaction
    ) throws(StorageError) -> [Fanout] {
        var fanouts: [Fanout] = []
        let progress = enter(dispatch, message, distribution, in: project)
        invariant(
            dispatch.variants.count == distribution.perVariant.count,
            "Each variant has its recipients.")
        for (variant, recipients) in zip(dispatch.variants, distribution.perVariant) {
            guard let recipients else { continue }
            var header = message.header(of: variant.stored)
            if !variant.isStored, header.sequence.isStored {
                header.sequence = nowOrNeverNumbers.next(message.accepted)
            }
            if message.options.wantsReceipts {
                try storage.receipts.putWanted(
                    of: header.sequence, number: header.number,
                    expires: message.accepted.advanced(
                        bySeconds: Int64(
                            max(
                                Limits.receiptsWantedSeconds,
                                MessageBounds(project, limits).timeToLiveSecondsMax))),
                    from: recipients, in: project.number)
            }
            let more = dispatch.fanouts(
                of: variant, header, to: recipients, in: project, progress)
            fanouts = fanouts.isEmpty ? more : fanouts + more
        }
        return fanouts
    }

    // MARK: Within limits

    /// - Parameter recipients: the result of `recipients`.
    /// - Returns: `nobody` if the only recipient is over its quota.
    mutating func distribute(
        _ dispatch: Dispatch, to recipients: Recipients, in project: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> GrantedDistribution {
        let granted: Recipients
        switch try grant(dispatch, to: recipients, in: project, now: now, storage) {
        case .everyone: granted = recipients
        case .some(let some): granted = some
        case .nobody(let retryMilliseconds):
            return .nobody(retryMilliseconds: retryMilliseconds)
        }
        var distribution = try audiences.distribution(
            of: dispatch, to: granted, in: project, storage)
        invariant(
            granted.count <= recipients.count, "A quota grants a message to recipients alone.")
        invariant(
            distribution.recipientCount == granted.count,
            "A message is distributed to the instances within their quotas.")
        distribution.rateLimitedCount = recipients.count - granted.count
        return .some(distribution, to: granted)
    }

    /// Takes the recipients' tokens (QUO-1). Now-or-never messages aren't throttled (TTL-2), so if a message has both kinds of
    /// variants, only recipients of stored ones pay.
    private mutating func grant(
        _ dispatch: Dispatch, to recipients: Recipients, in project: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RateGrant {
        guard dispatch.isStored else { return .everyone }
        let reaches = dispatch.variants.map(VariantReach.init)
        guard case .many(let set) = recipients, reaches.contains(where: { !$0.isStored }) else {
            return rates.take(recipients, in: project, at: now)
        }
        let throttled = try audiences.intersection(
            of: set, with: reaches.filter(\.isStored), in: project, storage)
        guard case .some(let some) = rates.take(.many(throttled), in: project, at: now) else {
            return .everyone
        }
        var sets = [set.subtracting(throttled)]
        switch some {
        case .one(let ordinal): sets.append(.of([ordinal]))
        case .many(let granted): sets.append(granted)
        }
        return .some(.many(RecipientSet.union(of: sets)))
    }
}
