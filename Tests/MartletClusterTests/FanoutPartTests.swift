// SPDX-License-Identifier: Apache-2.0
//
// The parts of followers in a fanout of the active node: reported, early, silent and gone.

import MartletBase
import MartletBits
import MartletEngine
import MartletNode
import MartletWire
import Testing

@Suite("Parts of nodes in a fanout")
struct FanoutPartTests {
    private static let now = Instant(millisecondsSince1970: 1_760_000_000_000)

    private let parts = FanoutParts()
    private let book = FanoutBook()
    private let links = (0..<2).map { _ in LinkOutbox(limit: 1 << 20) {} }

    private func fanout(_ number: UInt64) -> FanoutProgress {
        FanoutProgress(
            relayed: number, of: ProjectNumber(1), began: Self.now,
            recipients: [RecipientSetBuilder().finish()], book: book)
    }

    private func report(
        _ number: UInt64, delivered: UInt64 = 0, isEnded: Bool = false
    ) -> NodeEnded {
        NodeEnded(entries: [
            NodeEnded.Entry(
                project: ProjectNumber(1), messageNumber: number, delivered: delivered,
                blocks: 0, isEnded: isEnded)
        ])
    }

    private func begin(_ progress: FanoutProgress, at clock: Duration = .zero) {
        parts.begin(progress, loops: 1, at: Self.now, clock: clock)
    }

    private func take(_ report: NodeEnded, from link: Int, at clock: Duration = .zero) {
        parts.take(report, from: links[link], at: Self.now, clock: clock)
    }

    @Test("FAN-1 OPS-7 a fanout ends with the last part of a node or a loop")
    func ends() {
        for link in links { parts.join(link) }
        let progress = fanout(1)
        begin(progress)
        take(report(1, delivered: 3), from: 0)
        take(report(1, delivered: 4, isEnded: true), from: 0)
        progress.endPart(at: Self.now)
        #expect(progress.isTold)
        // Another message, and another end of a part that has ended, are none of the other node's part.
        take(report(2, isEnded: true), from: 1)
        take(report(1, isEnded: true), from: 0)
        #expect(progress.isTold)
        take(report(1, delivered: 5, isEnded: true), from: 1)
        #expect(!progress.isTold)
        #expect(progress.deliveredCount == 12)
    }

    @Test("FAN-1 OPS-7 a follower may report a row before the active node counts it")
    func early() {
        for link in links { parts.join(link) }
        take(report(1, delivered: 1), from: 0)
        take(report(1, delivered: 2, isEnded: true), from: 0)
        take(report(1, delivered: 1), from: 1)
        let progress = fanout(1)
        begin(progress)
        progress.endPart(at: Self.now)
        #expect(progress.isTold)
        #expect(progress.deliveredCount == 4)
        take(report(1, isEnded: true), from: 1)
        #expect(!progress.isTold)
    }

    @Test("FAN-1 OPS-7 a node that does not name a fanout for 3 s holds it up no more")
    func silent() {
        for link in links { parts.join(link) }
        let (named, unnamed) = (fanout(1), fanout(2))
        for progress in [named, unnamed] {
            begin(progress)
            progress.endPart(at: Self.now)
            take(report(progress.number, isEnded: true), from: 1)
        }
        for second in 1...10 {
            take(report(1), from: 0, at: .seconds(second))
            for link in links { parts.check(link, at: Self.now, clock: .seconds(second)) }
            #expect(named.isTold)
            #expect(unnamed.isTold == (second <= 3))
        }
        // A report after the end of the part is no second end.
        take(report(2, isEnded: true), from: 0, at: .seconds(11))
        take(report(1, isEnded: true), from: 0, at: .seconds(11))
        #expect(!named.isTold)
    }

    @Test("FAN-1 OPS-7 the end of a link ends the parts of its node")
    func leaves() {
        for link in links { parts.join(link) }
        let progress = fanout(1)
        begin(progress)
        progress.endPart(at: Self.now)
        parts.leave(links[0], at: Self.now)
        #expect(progress.isTold)
        parts.leave(links[1], at: Self.now)
        #expect(!progress.isTold)
        let alone = fanout(2)
        begin(alone)
        take(report(2), from: 0)
        alone.endPart(at: Self.now)
        #expect(!alone.isTold)
    }
}
