// SPDX-License-Identifier: Apache-2.0
//
// Counts a message by app when it is accepted (REP-1), and finds the instances that haven't received an earlier one (REP-2).
// Rests on Audiences.

import MartletBase
import MartletBits
import MartletCondition
import MartletRows

extension Engine {
    /// Begins a message's report, and counts the instances left out (REP-1).
    /// - Parameters:
    ///   - distribution: within quotas; nil if nobody gets the message.
    ///   - recipients: before quotas.
    ///   - ended: variants that ended before the message was sent. Their recipients aren't among `recipients`.
    mutating func beginReport(
        of message: StoredMessage, _ distribution: Distribution?, among recipients: Recipients?,
        beside ended: EndedVariants?, in project: Project, _ storage: borrowing Transaction
    ) throws(StorageError) {
        let isKept = message.sequence.isStored && limits.reportSeconds > 0
        var report = NewReport(
            sequence: isKept ? message.sequence : nil, number: message.number,
            accepted: message.accepted, shares: [], missed: [])
        if let recipients, recipients.count > 0, ended?.recipients == nil,
            let distribution, distribution.isWaitedFor(by: recipients)
        {
            if let app = audiences.onlyApp(of: recipients, in: project) {
                report.shares = [NewReport.Share(app: app, targeted: recipients.count)]
            } else {
                report.shares = try audiences.shares(of: recipients, in: project, storage)
                    .map { NewReport.Share(app: $0.key, targeted: $0.value) }
            }
        } else {
            var shares = OutcomeShares()
            if let recipients, recipients.count > 0 {
                try count(recipients, within: distribution, in: project, storage, in: &shares)
            }
            if let ended, let recipients = ended.recipients {
                let found = try audiences.shares(of: recipients, in: project, storage)
                shares.add(.targeted, found)
                shares.add(ended.event, found)
                shares.missed.append(recipients)
            }
            report.shares = shares.counts.map { NewReport.Share(app: $0.key, counts: $0.value) }
            report.missed = shares.missed
        }
        // A message without recipients has a report too, but no counts of its day (REP-3).
        guard isKept || !report.shares.isEmpty else { return }
        try storage.reports.begin(
            report, in: project.number, keptMax: limits.reportsPerProjectMax)
    }

    /// Counts recipients some of whom don't wait for the message.
    private mutating func count(
        _ recipients: Recipients, within distribution: Distribution?, in project: Project,
        _ storage: borrowing Transaction, in shares: inout OutcomeShares
    ) throws(StorageError) {
        let targeted = try audiences.shares(of: recipients, in: project, storage)
        shares.add(.targeted, targeted)
        guard let distribution, let granted = distribution.granted else {
            shares.add(.rateLimited, targeted)
            shares.missed.append(recipients)
            return
        }
        if granted.count < recipients.count {
            let left = try audiences.shares(of: granted, in: project, storage)
            shares.add(.rateLimited, targeted.merging(left) { $0 - $1 })
            shares.missed += recipients.without(granted)
        }
        var waiting: UInt64 = 0
        if let inactive = distribution.inactive {
            shares.add(
                .discardedInactive, try audiences.shares(of: inactive, in: project, storage))
            shares.missed.append(inactive)
            waiting += inactive.count
        }
        waiting += distribution.stored?.count ?? 0
        if waiting < granted.count {
            var now = try audiences.shares(of: granted, in: project, storage)
            for part in [distribution.stored, distribution.inactive] {
                guard let part else { continue }
                now.merge(try audiences.shares(of: part, in: project, storage)) { $0 - $1 }
            }
            shares.add(.nowOrNever, now)
        }
    }

    /// The recipients of a message. With `number`, only instances without the earlier message of that number remain
    /// (REP-2).
    /// - Throws: a refusal if the earlier message has no report.
    mutating func recipients(
        of dispatch: inout Dispatch, among instances: ResolvedTarget.Instances,
        without number: UInt64?, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> Recipients? {
        try audiences.recipients(
            of: &dispatch, among: instances, without: number, in: project, storage)
    }
}

extension Audiences {
    /// The recipients of a message. With `number`, only instances without the earlier message of that number remain
    /// (REP-2).
    /// - Throws: a refusal if the earlier message has no report.
    mutating func recipients(
        of dispatch: inout Dispatch, among instances: ResolvedTarget.Instances,
        without number: UInt64?, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> Recipients? {
        let recipients = try self.recipients(
            of: &dispatch, among: instances, in: project, storage)
        guard let number, let recipients else { return recipients }
        guard
            let sequence = try rows(
                storage.reporting.reportSequence(ofNumber: number, in: project))
        else {
            throw .refusal(.noEarlierReport)
        }
        var ordinals: [Ordinal] = []
        try rows(
            storage.reporting.forEachNotReceived(sequence, in: project, from: Ordinal(0)) {
                ordinals.append($0)
                return true
            })
        let missing = RecipientSet.of(ordinals)
        switch recipients {
        case .one(let ordinal): return missing.view.contains(ordinal) ? recipients : nil
        case .many(let set):
            let both = set.intersection(missing)
            return both.count > 0 ? .many(both) : nil
        }
    }
}

extension MartletError {
    /// The earlier message has no report (REP-2).
    static var noEarlierReport: MartletError {
        MartletError(
            .notFound,
            """
            There is no report of that message: there was none, it was now or never, or its report \
            is not kept any more.
            """, field: "not_received")
    }
}

/// The first counts of a report, if not all its instances wait.
private struct OutcomeShares {
    var counts: [AppNumber: ReportCounts] = [:]
    /// Disjoint sets of instances that don't get the message.
    var missed: [Recipients] = []

    mutating func add(_ event: ReportEvent, _ shares: [AppNumber: UInt64]) {
        for (app, count) in shares { counts[app, default: ReportCounts()][event] += count }
    }
}

extension Distribution {
    /// Whether the message is stored for all recipients and discarded for no recipient.
    fileprivate func isWaitedFor(by recipients: Recipients) -> Bool {
        inactive == nil && granted?.count == recipients.count && stored?.count == recipients.count
    }
}

extension Recipients {
    /// The recipients that aren't in `others`, as an array of at most one element.
    fileprivate func without(_ others: Recipients) -> [Recipients] {
        switch (self, others) {
        case (.one, _): return others.count == 0 ? [self] : []
        case (.many(let set), .many(let other)):
            let rest = set.subtracting(other)
            return rest.count > 0 ? [.many(rest)] : []
        case (.many(let set), .one(let ordinal)):
            let rest = set.subtracting(.of([ordinal]))
            return rest.count > 0 ? [.many(rest)] : []
        }
    }
}
