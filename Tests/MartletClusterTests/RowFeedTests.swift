// SPDX-License-Identifier: Apache-2.0
//
// Rows that come over a link: only rows that come next in the history of the store are taken.

import MartletCluster
import MartletNode
import MartletRows
import MartletWire
import Testing

@Suite("Rows over a link")
struct RowFeedTests {
    private static let incarnation = Array(1...16 as ClosedRange<UInt8>)
    private static let beginning = LogPosition(beginningOf: incarnation)

    private let feed = RowFeed()
    private let link = LinkOutbox(limit: 1 << 20) {}
    private let rows: [ReplicatedRow]

    init() {
        var rows: [ReplicatedRow] = []
        for number in 0..<5 as Range<UInt8> {
            rows.append(
                ReplicatedRow(
                    after: rows.last?.position ?? Self.beginning, epoch: number < 3 ? 1 : 2,
                    body: [number]))
        }
        self.rows = rows
    }

    private func frame(_ row: ReplicatedRow, body: [UInt8]? = nil) -> NodeRow {
        NodeRow(
            epoch: row.position.epoch, row: row.position.row, chain: row.position.chain,
            body: body ?? row.body)
    }

    @discardableResult
    private func take(_ numbers: Int...) -> Bool {
        numbers.allSatisfy { feed.take(frame(rows[$0]), from: link, of: Self.incarnation) }
    }

    @Test(
        """
        OPS-7: rows that come next are taken in turn, over a takeover too, and rows of before are \
        dropped
        """)
    func inTurn() {
        feed.begin(link)
        take(0, 1, 2, 3, 4)
        #expect(feed.next(after: Self.beginning) == rows)
        #expect(feed.next(after: rows[4].position) == [])
        take(0, 1, 2)
        #expect(feed.next(after: rows[1].position) == [rows[2]])
    }

    @Test("OPS-7: no row is taken behind a missing row, and none with other bytes than the log's")
    func gaps() {
        feed.begin(link)
        take(0, 2, 3)
        #expect(feed.next(after: Self.beginning) == [rows[0]])
        // The rows behind the gap are read from the log.
        #expect(feed.next(after: rows[1].position) == [])
        take(0)
        #expect(feed.take(frame(rows[1], body: [7]), from: link, of: Self.incarnation))
        #expect(feed.next(after: Self.beginning) == [rows[0]])
        #expect(feed.take(frame(rows[0]), from: link, of: Self.incarnation.reversed()))
        #expect(feed.next(after: Self.beginning) == [])
    }

    @Test("OPS-7: rows come over the present link alone, and its end leaves those that have come")
    func links() {
        #expect(!feed.isFed)
        #expect(!take(0))
        feed.begin(link)
        #expect(feed.isFed)
        take(0)
        feed.end(LinkOutbox(limit: 1) {})
        #expect(feed.isFed)
        feed.end(link)
        #expect(!feed.isFed)
        #expect(!take(1))
        #expect(feed.next(after: Self.beginning) == [rows[0]])
    }

    @Test("OPS-7: a row goes to all followers with room, and large rows stay in the log")
    func sends() throws {
        let slow = LinkOutbox(limit: 64 << 20) {}
        feed.join(link)
        feed.join(slow)
        feed.send(rows[0])
        let large = [UInt8](repeating: 0, count: 4 << 20)
        feed.send(ReplicatedRow(after: Self.beginning, epoch: 1, body: large + [0]))
        let expected = frame(rows[0])
        for outbox in [link, slow] {
            let bytes = outbox.take()
            let decoded = try NodeFrame.decode(
                type: bytes[4], body: bytes.span.bytes.extracting(5..<bytes.count))
            #expect(decoded == .row(expected))
        }
        feed.leave(link)
        for _ in 0..<3 {
            feed.send(ReplicatedRow(after: Self.beginning, epoch: 1, body: large))
        }
        // Two rows fill the link, and the third is left to the log.
        #expect(slow.take().count < 9 << 20)
        #expect(link.take().isEmpty)
    }
}
