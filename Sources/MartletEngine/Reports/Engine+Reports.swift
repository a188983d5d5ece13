// SPDX-License-Identifier: Apache-2.0
//
// REP-1: what is counted when a message is accepted, app by app. REP-2: those that have not got an
// earlier message, as an audience. Rests on Audiences.

import MartletBase
import MartletBits
import MartletCondition
import MartletRows

extension Engine {
    /// - Parameters:
    ///   - distribution: nil: nobody gets it.
    ///   - recipients: whom it is for.
    mutating func beginReport(
        of message: StoredMessage, _ distribution: Distribution?, among recipients: Recipients?,
        in project: Project, _ storage: borrowing Transaction
    ) throws(StorageError) {
        let isKept = message.sequence.isStored && limits.reportSeconds > 0
        var report = NewReport(
            sequence: isKept ? message.sequence : nil, number: message.number,
            accepted: message.accepted, shares: [], missed: [])
        guard let recipients, recipients.count > 0 else {
            // REP-3: a message without recipients has a report too.
            if isKept { try storage.reports.begin(report, in: project.number) }
            return
        }
        if let distribution, distribution.isWaitedFor(by: recipients) {
            if let app = audiences.onlyApp(of: recipients, in: project) {
                report.shares = [NewReport.Share(app: app, targeted: recipients.count)]
            } else {
                report.shares = try audiences.shares(of: recipients, in: project, storage)
                    .map { NewReport.Share(app: $0.key, targeted: $0.value) }
            }
            return try storage.reports.begin(report, in: project.number)
        }
        var missed: [Recipients] = []
        let targeted = try audiences.shares(of: recipients, in: project, storage)
        var counts = targeted.mapValues { count in
            var counts = ReportCounts()
            counts[.targeted] = count
            return counts
        }
        func add(_ event: ReportEvent, _ other: [AppNumber: UInt64]) {
            for (app, count) in other { counts[app, default: ReportCounts()][event] += count }
        }
        if let distribution, let granted = distribution.granted {
            if granted.count < recipients.count {
                let left = try audiences.shares(of: granted, in: project, storage)
                add(.rateLimited, targeted.merging(left) { $0 - $1 })
                missed += recipients.without(granted)
            }
            var waiting: UInt64 = 0
            if let inactive = distribution.inactive {
                add(.discardedInactive, try audiences.shares(of: inactive, in: project, storage))
                missed.append(inactive)
                waiting += inactive.count
            }
            waiting += distribution.stored?.count ?? 0
            if waiting < granted.count {
                var now = try audiences.shares(of: granted, in: project, storage)
                for part in [distribution.stored, distribution.inactive] {
                    guard let part else { continue }
                    now.merge(try audiences.shares(of: part, in: project, storage)) { $0 - $1 }
                }
                add(.nowOrNever, now)
            }
        } else {
            add(.rateLimited, targeted)
            missed.append(recipients)
        }
        report.shares = counts.map { NewReport.Share(app: $0.key, counts: $0.value) }
        report.missed = missed
        try storage.reports.begin(report, in: project.number)
    }

    /// Who a message is for, less those that have an earlier one, if it says so.
    /// - Throws: `MartletError`, `StorageError`.
    mutating func recipients(
        of dispatch: inout Dispatch, among instances: ResolvedTarget.Instances,
        without number: UInt64?, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws -> Recipients? {
        let recipients = try audiences.recipients(
            of: &dispatch, among: instances, in: project, storage)
        guard let number, let recipients else { return recipients }
        guard let sequence = try storage.reporting.reportSequence(ofNumber: number, in: project)
        else {
            throw MartletError(
                .notFound,
                """
                There is no report of that message: there was none, it was now or never, or its report \
                is not kept any more.
                """, field: "not_received")
        }
        var ordinals: [Ordinal] = []
        try storage.reporting.forEachNotReceived(sequence, in: project, from: Ordinal(0)) {
            ordinals.append($0)
            return true
        }
        let missing = RecipientSet.of(ordinals)
        switch recipients {
        case .one(let ordinal): return missing.view.contains(ordinal) ? recipients : nil
        case .many(let set):
            let both = set.intersection(missing)
            return both.count > 0 ? .many(both) : nil
        }
    }
}

extension Distribution {
    /// Whether the message is stored for everybody it was for, and discarded for nobody.
    fileprivate func isWaitedFor(by recipients: Recipients) -> Bool {
        inactive == nil && granted?.count == recipients.count && stored?.count == recipients.count
    }
}

extension Recipients {
    /// Those that are not in `others`; none of them: no set.
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
