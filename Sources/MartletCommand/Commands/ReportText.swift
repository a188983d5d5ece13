// SPDX-License-Identifier: Apache-2.0
//
// Reports for people: tables, and in a terminal bars and courses beside the numbers (REP-1). Rests on Table and Bars.

import Martlet
import MartletAnswers

struct ReportText {
    /// Whether the report has bars, for a terminal.
    let hasBars: Bool

    private static let barCells = 24
    private static let courseCells = 60

    private struct Counter {
        var name: String
        var path: any KeyPath<DeliveryCounts, UInt64> & Sendable

        init(_ name: String, _ path: any KeyPath<DeliveryCounts, UInt64> & Sendable) {
            self.name = name
            self.path = path
        }

        func value(_ counts: DeliveryCounts) -> UInt64 { counts[keyPath: path] }
    }

    private static let targeted = Counter("targeted", \.targeted)
    private static let acknowledged = Counter("acknowledged", \.acknowledged)
    /// GW-11: outcome of messages that a foreign push service took.
    private static let handedOver = Counter("handed over", \.handedOver)
    private static let pending = Counter("pending", \.pending)
    private static let sent = Counter("sent", \.sent)
    private static let told = [
        Counter("displayed", \.displayed), Counter("opened", \.opened),
    ]
    /// Outcomes beside `acknowledged` and `handedOver`.
    private static let losses = [
        Counter("collapsed", \.collapsed), Counter("expired", \.expired),
        Counter("rate-limited", \.rateLimited),
        Counter("discarded, too many", \.discardedTooMany),
        Counter("discarded, inactive", \.discardedInactive),
        Counter("unregistered", \.unregistered), Counter("cancelled", \.cancelled),
        Counter("now or never", \.nowOrNever),
        Counter("refused by a push service", \.refused),
    ]

    // MARK: One message

    func text(_ report: DeliveryReport) -> String {
        var text = "\(report.messageID)\naccepted \(report.accepted.iso8601)\n\n"
        text += shares(of: report.counts)
        if report.unsettledCount > 0 {
            text += "\nOf those that are pending, \(report.unsettledCount) were not looked into,"
            text += " as there are too many: some of them may wait for nothing any more."
        }
        for refusal in report.refusals {
            text += "\nRefused by \(refusal.kind.name): \(refusal.reason.withoutControls)"
            text += " (\(refusal.count))"
        }
        return text
    }

    private func shares(of counts: DeliveryCounts) -> String {
        var table = Table(("COUNTED", .left), ("NUMBER", .right), ("SHARE", .right), ("", .left))
        func add(_ counter: Counter, withBar: Bool = false) {
            let count = counter.value(counts)
            let bar = Bars.bar(count, of: counts.targeted, cells: Self.barCells)
            table.add(
                counter.name, "\(count)", Self.share(count, of: counts.targeted),
                withBar ? bar : "")
        }
        let outcomes =
            [Self.acknowledged] + Self.present([Self.handedOver] + Self.losses, in: [counts])
        for counter in outcomes + [Self.pending] {
            add(counter, withBar: hasBars)
        }
        add(Self.targeted)
        table.add("", "", "", "")
        for counter in [Self.sent] + Self.told { add(counter) }
        return table.text
            + "\n\nOutcomes \(counts.outcomes) + pending \(counts.pending) = targeted "
            + "\(counts.targeted). Shares are of what was targeted."
    }

    /// The counters that are above 0 in at least one of `all`.
    private static func present(_ counters: [Counter], in all: [DeliveryCounts]) -> [Counter] {
        counters.filter { counter in all.contains { counter.value($0) > 0 } }
    }

    private static func share(_ count: UInt64, of targeted: UInt64) -> String {
        targeted == 0 ? "-" : Quantity.percent(Double(count) / Double(targeted))
    }

    /// REP-2: why recipients have not got a message, such as `17 pending, 2 rate-limited`. The store keeps the reasons of a
    /// message as counts, and not with each instance.
    static func reasons(_ counts: DeliveryCounts) -> String {
        let reasons = present([pending] + losses, in: [counts]).map {
            "\($0.value(counts)) \($0.name)"
        }
        return reasons.isEmpty
            ? "Nobody is without the message."
            : "Without the message: \(reasons.joined(separator: "; "))."
                + (counts.unregistered > 0 ? " Unregistered instances are not listed." : "")
    }

    // MARK: A project

    func text(_ report: ProjectReport, by grouping: ReportCommand.Grouping) -> String {
        let (first, last) = (report.days.lowerBound, report.days.upperBound)
        var sections = ["\(report.project), \(first) to \(last) (UTC)"]
        guard !report.entries.isEmpty else {
            return sections[0] + "\nNothing was sent."
        }
        sections.append(shares(of: report.total))
        switch grouping {
        case .day:
            sections.append(
                Self.table(
                    ["DAY"], report.sums(by: \.day).map { ([$0.key.description], $0.counts) }))
        case .app:
            sections.append(
                Self.table(
                    ["APP", "PLATFORM"],
                    report.sums { [$0.app, $0.platform.name] }
                        .sorted { $0.key.lexicographicallyPrecedes($1.key) }
                        .map { ($0.key, $0.counts) }))
        case .platform:
            sections.append(
                Self.table(
                    ["PLATFORM"],
                    report.sums(by: \.platform).sorted { $0.key.rawValue < $1.key.rawValue }
                        .map { ([$0.key.name], $0.counts) }))
        }
        if hasBars, first < last { sections.append(Self.courses(report)) }
        return sections.joined(separator: "\n\n")
    }

    /// A table with a row for each key. A counter with only zeros has no column, except the four counters that every
    /// reader looks for.
    private static func table(
        _ keys: [String], _ rows: [(keys: [String], counts: DeliveryCounts)]
    ) -> String {
        let counts = rows.map(\.counts)
        let counters =
            [targeted, acknowledged] + present([handedOver] + losses, in: counts)
            + [pending, sent]
            + present(told, in: counts)
        var table = Table(
            columns: keys.map { ($0, .left) } + counters.map { ($0.name.uppercased(), .right) })
        for row in rows {
            table.add(row: row.keys + counters.map { "\($0.value(row.counts))" })
        }
        return table.text
    }

    /// The course of each count, day by day.
    private static func courses(_ report: ProjectReport) -> String {
        let first = report.days.lowerBound.rawValue
        let count = Int(report.days.upperBound.rawValue - first) + 1
        var days = [DeliveryCounts](repeating: DeliveryCounts(), count: count)
        for entry in report.entries where report.days.contains(entry.day) {
            days[Int(entry.day.rawValue - first)] += entry.counts
        }
        let each = Bars.grouped(days.map(\.targeted), cells: courseCells).each
        var table = Table(
            (each == 1 ? "PER DAY" : "PER \(each) DAYS", .left), ("MOST", .right), ("", .left))
        let counters = [targeted, acknowledged, handedOver] + losses + [pending, sent] + told
        for counter in present(counters, in: days) {
            let values = Bars.grouped(days.map(counter.value), cells: courseCells).values
            table.add(counter.name, "\(values.max() ?? 0)", Bars.course(values))
        }
        return table.text
    }
}
