// SPDX-License-Identifier: Apache-2.0
//
// Lists fanouts in progress and deferred messages, project by project, in pages (FAN-8). The fanouts come from the book, the
// deferred messages from a snapshot of the store. Rests on FanoutBook.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletWire

/// The list of fanouts at an instant.
struct FanoutList {
    let book: FanoutBook
    let store: Store
    let now: Instant

    /// Characters of a topic or condition in an entry; the rest is cut.
    private static let targetCharactersMax = 200
    /// Bytes of a page, below the 256 KiB of a frame.
    private static let bytesPerPageMax = 192 * 1024

    /// The end of the page before: a fanout in progress, or a deferred message.
    private struct Cursor {
        var project: UInt32 = 0
        var runningAfter: UInt64 = 0
        var deferredAfter: UInt64 = 0
        /// Place of the last deferred message. Messages that have begun since then are not subtracted.
        var place: UInt64 = 0

        init() {}

        init(_ text: String) throws(MartletError) {
            guard !text.isEmpty else { return }
            let parts = text.split(separator: ".").compactMap { UInt64($0) }
            guard parts.count == 4, let number = UInt32(exactly: parts[0]) else {
                throw MartletError(
                    .invalidArgument, "The cursor is not one that a page ended with.",
                    field: "cursor")
            }
            project = number
            (runningAfter, deferredAfter, place) = (parts[1], parts[2], parts[3])
        }

        var text: String { "\(project).\(runningAfter).\(deferredAfter).\(place)" }
    }

    /// Makes a page.
    /// - Parameter only: the project to list; nil: all projects.
    /// - Throws: `MartletError` for a bad cursor or limit, `StorageError`.
    func page(
        of only: ProjectNumber?, after text: String, limit: Int
    ) throws -> ListPage<FanoutSummary> {
        try Self.check(limit)
        var cursor = try Cursor(text)
        var page = ListPage<FanoutSummary>(entries: [], next: nil)
        var bytesLeft = Self.bytesPerPageMax
        for standing in book.standings {
            let number = standing.project.rawValue
            guard only == nil || only == standing.project, number >= cursor.project else {
                continue
            }
            if number > cursor.project {
                cursor = Cursor()
                cursor.project = number
            }
            let deferredMax = limit - page.entries.count + 1
            let (id, waiting) = try store.read { (transaction) throws in
                (
                    try transaction.projects.project(standing.project)?.id ?? "",
                    try DeferredMessage.list(
                        in: standing.project, after: cursor.deferredAfter, limit: deferredMax,
                        transaction)
                )
            }
            func add(_ summary: FanoutSummary, _ before: Cursor) -> Bool {
                bytesLeft -= 64 + id.utf8.count + summary.target.utf8.count
                guard page.entries.count < limit, bytesLeft >= 0 else {
                    page.next = before.text
                    return false
                }
                page.entries.append(summary)
                return true
            }
            for (order, progress) in standing.running where order > cursor.runningAfter {
                guard add(summary(progress, standing, id), cursor) else { return page }
                cursor.runningAfter = order
            }
            for message in waiting {
                guard add(summary(message, cursor.place + 1, id), cursor) else { return page }
                cursor.deferredAfter = message.number
                cursor.place += 1
            }
        }
        return page
    }

    private static func check(_ limit: Int) throws(MartletError) {
        guard (1...Limits.pageEntriesMax).contains(limit) else {
            throw MartletError(
                .invalidArgument, "A page has 1 to \(Limits.pageEntriesMax) entries.",
                field: "limit")
        }
    }

    /// OPS-7: makes a page of a list of the active node. The cursor is the number of entries before the page.
    static func page(
        _ list: [FanoutSummary], after text: String, limit: Int
    ) throws(MartletError) -> ListPage<FanoutSummary> {
        try check(limit)
        guard let first = text.isEmpty ? 0 : Int(text), first >= 0 else {
            throw MartletError(
                .invalidArgument, "The cursor is not one that a page ended with.", field: "cursor")
        }
        let entries = Array(list.dropFirst(first).prefix(limit))
        let end = first + entries.count
        return ListPage(entries: entries, next: end < list.count ? "\(end)" : nil)
    }

    private func summary(
        _ progress: FanoutProgress, _ standing: FanoutBook.Standing, _ id: String
    ) -> FanoutSummary {
        let seconds = Double(max(now.rawValue - progress.began.rawValue, 0)) / 1000
        let (delivered, fraction) = (progress.deliveredCount, progress.fraction)
        let target = Self.target(progress.target)
        return FanoutSummary(
            project: id, messageNumber: progress.number, kind: target.kind, target: target.text,
            since: progress.began, recipientCount: progress.recipientCount,
            deliveredCount: delivered,
            progress: fraction,
            deliveriesPerSecond: seconds > 0 ? Double(delivered) / seconds : 0,
            share: standing.share / Double(max(standing.running.count, 1)),
            secondsLeft: fraction > 0 ? seconds * (1 - fraction) / fraction : nil)
    }

    private func summary(
        _ message: DeferredMessage, _ place: UInt64, _ id: String
    ) -> FanoutSummary {
        let target = Self.target(message.target)
        return FanoutSummary(
            project: id, messageNumber: message.number, kind: target.kind, target: target.text,
            since: message.since, deferredPlace: Int(clamping: place))
    }

    private static func target(_ target: SendCommand.Target) -> MessageTarget {
        switch target {
        case .token(let text): .token(text)
        case .topic(let text): .topic(cut(text))
        case .condition(let text): .condition(cut(text))
        case .group(let text): .group(text)
        case .several(let targets): .several(targets.map { Self.target($0) })
        }
    }

    private static func cut(_ text: String) -> String {
        text.count > targetCharactersMax ? text.prefix(targetCharactersMax) + "…" : text
    }
}
