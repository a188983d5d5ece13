// SPDX-License-Identifier: Apache-2.0
//
// Rows, names, leases and doubts by themselves, without a log.

import MartletBase
import MartletCluster
import MartletRows
import Testing

@Suite("Rows of a log")
struct RowTests {
    private static let beginning = LogPosition(beginningOf: Array(1...16))

    /// Three rows. Chains by Python's hashlib: sha256(chain + body)[:16], from 16 zeros on.
    private static let golden: [(body: String, chain: String)] = [
        ("first", "95e87d11ce1501f8107c41def4f175fd"),
        ("second row", "0a1d3c27742c8c7920fb4d3ffad341ba"),
        ("", "d8848ab7664899da3464d466249c7df5"),
    ]

    private static func rows() -> [ReplicatedRow] {
        var rows: [ReplicatedRow] = []
        for (body, _) in golden {
            rows.append(
                ReplicatedRow(
                    after: rows.last?.position ?? beginning, epoch: 1, body: Array(body.utf8)))
        }
        return rows
    }

    @Test("OPS-7: the chain of a row is half of the SHA-256 of the chain before and the body")
    func chains() {
        for (row, golden) in zip(Self.rows(), Self.golden) {
            let digits = row.position.chain.map { byte in
                let text = String(byte, radix: 16)
                return text.count == 1 ? "0" + text : text
            }
            #expect(digits.joined() == golden.chain)
        }
    }

    @Test("OPS-7: a changed, missing, doubled or older row is found by its chain")
    func divergence() {
        let rows = Self.rows()
        #expect(rows.firstDivergence(after: Self.beginning) == nil)
        #expect(rows[1...].firstDivergence(after: rows[0].position) == nil)
        #expect(rows.firstDivergence(after: rows[0].position) == rows[0])
        #expect([rows[0], rows[2]].firstDivergence(after: Self.beginning) == rows[2])
        #expect([rows[0], rows[0]].firstDivergence(after: Self.beginning) == rows[0])
        let changed = ReplicatedRow(read: rows[1].position, body: Array("second rox".utf8))
        #expect([rows[0], changed, rows[2]].firstDivergence(after: Self.beginning) == changed)
        var position = rows[1].position
        position.epoch = 0
        let older = ReplicatedRow(read: position, body: rows[1].body)
        #expect([rows[0], older].firstDivergence(after: Self.beginning) == older)
    }

    @Test(
        "OPS-7: names of nodes",
        arguments: [
            ("a", true), ("node-3.harbour_B", true), (String(repeating: "n", count: 40), true),
            ("", false), (String(repeating: "n", count: 41), false), ("a b", false), ("é", false),
            ("a'", false), ("a\n", false),
        ])
    func names(text: String, isAllowed: Bool) {
        #expect((try? NodeName(validating: text).text) == (isAllowed ? text : nil))
    }

    @Test("OPS-7: a holder counts on four fifths of its lease, from before it asked")
    func hold() {
        let hold = LeaseHold(epoch: 3, from: .seconds(10), life: .seconds(3))
        #expect(hold.isValid(at: .milliseconds(12_399)))
        #expect(!hold.isValid(at: .milliseconds(12_400)))
    }

    @Test("OPS-7: a doubt ends with an answer of the log about the row, and with nothing else")
    func doubts() {
        let rows = Self.rows()
        let (row, other) = (rows[0].position, rows[1].position)
        let failed = AppendOutcome.refused(.failed(.late))
        var doubt = OpenDoubt()
        #expect(doubt.judged(failed, of: row) == failed)
        #expect(doubt.judged(.inDoubt(.late), of: row) == .inDoubt(.late))
        #expect(doubt.judged(failed, of: row) == .inDoubt(.late))
        #expect(doubt.judged(failed, of: row) == .inDoubt(.late))
        #expect(doubt.judged(.accepted, of: row) == .accepted)
        #expect(doubt.judged(failed, of: row) == failed)
        #expect(doubt.judged(.inDoubt(.late), of: row) == .inDoubt(.late))
        #expect(doubt.judged(.refused(.taken(epoch: 2)), of: row) == .refused(.taken(epoch: 2)))
        #expect(doubt.judged(failed, of: row) == failed)
        #expect(doubt.judged(.inDoubt(.late), of: row) == .inDoubt(.late))
        #expect(doubt.judged(failed, of: other) == failed)
    }
}
