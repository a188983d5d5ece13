// SPDX-License-Identifier: Apache-2.0
//
// What is counted of each message beside what the model knows of every instance (REP-1), and who is said
// not to have got it (REP-2). Rests on History.

import MartletBase
import MartletEngine
import MartletRows

extension History {
    /// What the broker counts for a fate that is certain.
    private static let events: [EagerMailbox.Fate: ReportEvent] = [
        .acknowledged: .acknowledged, .collapsed: .collapsed, .expired: .expired,
        .discarded: .discardedTooMany, .inactive: .discardedInactive, .cancelled: .cancelled,
        .unregistered: .unregistered,
    ]

    func compareReports() throws {
        try world.finishRests()
        for (id, message) in model.messages.sorted(by: { $0.key < $1.key }) {
            guard let serial = message.serial, let number = numbers[id],
                let expected = model.reports[serial]
            else { continue }
            try compare(expected, serial, number, id)
        }
        try compareDays()
    }

    /// The days add up to the messages.
    private func compareDays() throws {
        var all = ReportCounts()
        for number in Set(numbers.values) {
            if let report = try world.report(number) { all += report.counts }
        }
        let days = try world.dayCounts()
        for event in ReportEvent.allCases
        where event.isOutcome && event != .rateLimited && event != .nowOrNever {
            guard days[event] == all[event] else {
                throw Difference("days: \(days[event]) \(event) instead of \(all[event])")
            }
        }
    }

    private func compare(
        _ expected: BrokerModel.Report, _ serial: UInt64, _ number: UInt64, _ id: UInt64
    ) throws {
        var fates = expected.left
        for one in expected.waited {
            guard let instance = model.instances[one] else { continue }
            if let fate = instance.mailbox.fates[serial] {
                fates[fate, default: 0] += instance.count
            }
        }
        guard let report = try world.report(number) else {
            guard expected.waitedCount == 0 else {
                throw Difference("there is no report of \(id)")
            }
            return
        }
        let counts = report.counts
        guard counts[.targeted] == UInt64(expected.targetedCount),
            counts[.rateLimited] == UInt64(expected.rateLimitedCount),
            counts[.nowOrNever] == UInt64(expected.nowOrNeverCount),
            counts.pending + counts.outcomeCount == counts[.targeted], report.unsettledCount == 0
        else { throw Difference("\(id): \(told(counts)) instead of \(expected)") }
        let unsure = EagerMailbox.Fate.allCases.reduce(0) {
            $0 + (Self.events[$1] == nil ? fates[$1] ?? 0 : 0)
        }
        var ended = 0
        for (fate, event) in Self.events {
            let least = fates[fate] ?? 0
            ended += least
            guard counts[event] >= UInt64(least), counts[event] <= UInt64(least + unsure) else {
                throw Difference(
                    "\(now): \(id): \(told(counts)) instead of \(fates), \(expected)")
            }
        }
        let waiting = expected.waitedCount - ended - unsure
        guard counts.pending >= UInt64(waiting), counts.pending <= UInt64(waiting + unsure) else {
            throw Difference("\(id): \(told(counts)) instead of \(fates), \(waiting) wait")
        }
        try compareNotReceived(expected, serial, number, id)
    }

    private func compareNotReceived(
        _ expected: BrokerModel.Report, _ serial: UInt64, _ number: UInt64, _ id: UInt64
    ) throws {
        let found = try world.notReceived(number) ?? []
        for (one, instance) in model.instances where one != crowd {
            var isMissing = expected.rateLimited.contains(one) || expected.ended.contains(one)
            if expected.waited.contains(one) {
                switch instance.mailbox.fates[serial] {
                case .collapsedOrAcknowledged, .discardedOrAcknowledged: continue
                case .acknowledged: break
                default: isMissing = true
                }
            }
            guard found.contains(instance.token) == isMissing else {
                throw Difference(
                    "\(id): \(one) has \(isMissing ? "not " : "")got it, which is not told")
            }
        }
    }

    private func told(_ counts: ReportCounts) -> String {
        ReportEvent.allCases.filter { counts[$0] > 0 }.map { "\($0) \(counts[$0])" }
            .joined(separator: ", ")
    }
}
