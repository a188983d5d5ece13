// SPDX-License-Identifier: Apache-2.0
//
// A follower's reports on fanouts in progress (FAN-1). It tracks the progress of each fanout that a row brings, and reports to
// the active node (`FanoutParts`): the end at once, deliveries every 100 ms, and each fanout in progress once a second.
// Without a link, or if the active node runs an older program, it keeps nothing. Rests on FanoutProgress and NodeEnded.

import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletWire
import Synchronization

/// Fanouts on a follower's loops, for its reports.
final class FanoutReports: Sendable {
    /// Time between two reports. Each costs a frame, but the sooner it comes, the sooner a fanout's place is free.
    private static let pause = Duration.milliseconds(10)
    /// Time between two reports of a fanout's deliveries.
    private static let newsPause = Duration.milliseconds(NodeLimits.reportMilliseconds)
    /// After this time a fanout is named even without news; well before the silence ends its part.
    private static let namingPause = Duration.seconds(1)

    private struct Entry {
        var progress: FanoutProgress
        var loopCount: Int
        var delivered: UInt64 = 0
        var blocks = 0
        var told = Duration.zero
    }

    private struct State {
        /// The link to the active node, if it counts reports.
        var link: LinkOutbox?
        var open: [Entry] = []
        var reported = Duration.zero
    }

    private let state = Mutex(State())

    /// An active node that counts reports has said hello.
    func begin(_ link: LinkOutbox) {
        state.withLock { state in
            state.link = link
            state.open = []
        }
    }

    /// The link has ended, so nobody counts the fanouts.
    func end(_ link: LinkOutbox) {
        state.withLock { state in
            guard state.link === link else { return }
            state.link = nil
            state.open = []
        }
    }

    /// Begins to track fanouts of another node, before the loops hear of them.
    /// - Parameter isCounted: whether the active node counts a fanout's parts.
    func counting(
        _ fanouts: [Fanout], loops: Int, _ book: FanoutBook, at now: Instant,
        isCounted: (Fanout) -> Bool = { _ in true }
    ) -> [Fanout] {
        guard loops > 0, state.withLock({ $0.link != nil }) else { return fanouts }
        // A message's variants share their progress.
        var sets: [FanoutKey: [RecipientSet]] = [:]
        for fanout in fanouts {
            guard case .many(let set) = fanout.recipients, isCounted(fanout) else { continue }
            sets[FanoutKey(fanout), default: []].append(set)
        }
        guard !sets.isEmpty else { return fanouts }
        var progress: [FanoutKey: FanoutProgress] = [:]
        let counted = fanouts.map { fanout -> Fanout in
            let key = FanoutKey(fanout)
            guard case .many = fanout.recipients, sets[key] != nil else { return fanout }
            let one =
                progress[key]
                ?? FanoutProgress(
                    relayed: key.number, of: key.project, began: fanout.header.accepted,
                    recipients: sets[key] ?? [], book: book)
            progress[key] = one
            return Fanout(
                project: fanout.project, header: fanout.header, body: fanout.body,
                recipients: fanout.recipients, position: fanout.position,
                weight: fanout.weight, progress: one)
        }
        for one in progress.values { one.begin(loops: loops, at: now) }
        state.withLock { state in
            guard state.link != nil else { return }
            state.open += progress.values.map { Entry(progress: $0, loopCount: loops) }
        }
        return counted
    }

    /// Reports what is new, at most once in 10 ms.
    func tell(at now: Duration) {
        state.withLock { state in
            guard let link = state.link, !state.open.isEmpty, now - state.reported >= Self.pause
            else { return }
            state.reported = now
            guard let report = Self.report(&state.open, at: now) else { return }
            link.push(NodeFrame.ended(report).bytes)
        }
    }

    private static func report(_ open: inout [Entry], at now: Duration) -> NodeEnded? {
        var entries: [NodeEnded.Entry] = []
        var (untold, told): ([Entry], [Entry]) = ([], [])
        for var entry in open {
            let progress = entry.progress
            // Read the end first: then the deliveries before it are in the same report.
            let isEnded = !progress.isTold
            let (delivered, blocks) = (
                progress.deliveredCount, progress.walkedBlocks / entry.loopCount
            )
            let age = now - entry.told
            let hasNews = delivered > entry.delivered || blocks > entry.blocks
            guard isEnded || hasNews && age >= newsPause || age >= namingPause,
                entries.count < NodeLimits.endedEntriesMax
            else {
                untold.append(entry)
                continue
            }
            entries.append(
                NodeEnded.Entry(
                    project: progress.project, messageNumber: progress.number,
                    delivered: delivered - entry.delivered,
                    blocks: UInt32(clamping: blocks - entry.blocks), isEnded: isEnded))
            if isEnded { continue }
            (entry.delivered, entry.blocks, entry.told) = (delivered, blocks, now)
            told.append(entry)
        }
        // What doesn't fit into this report comes first in the next.
        open = untold + told
        return entries.isEmpty ? nil : NodeEnded(entries: entries)
    }
}

extension FanoutKey {
    init(_ fanout: Fanout) {
        self.init(project: fanout.project, number: fanout.header.number)
    }
}
