// SPDX-License-Identifier: Apache-2.0
//
// When the committer begins its next transaction. Rests on Gathering.

import Martlet
import MartletCommitter
import Testing

private let microsecond: UInt64 = 1000
private let transaction = 400 * microsecond

@Suite("The committer waits for senders that were just answered, and for nobody else")
struct GatheringTests {
    @Test("Until as many commands have come as were answered")
    func untilAllAreBack() {
        var gathering = Gathering()
        gathering.published(16, at: 0, after: transaction)
        gathering.arrived(1)
        #expect(gathering.wait(at: 10 * microsecond) > 0)
        gathering.arrived(14)
        #expect(gathering.wait(at: 20 * microsecond) > 0)
        gathering.arrived(1)
        #expect(gathering.wait(at: 30 * microsecond) == 0)
    }

    @Test("Not for few", arguments: 1...3)
    func few(answered: Int) {
        var gathering = Gathering()
        gathering.published(answered, at: 0, after: transaction)
        #expect(gathering.wait(at: microsecond) == 0)
    }

    @Test("Not before anything was answered")
    func atFirst() {
        var gathering = Gathering()
        gathering.arrived(3)
        #expect(gathering.wait(at: microsecond) == 0)
    }

    @Test(
        "For half of what the transaction took, and for a millisecond at most",
        arguments: [(400, 200), (1_000_000, 1000)] as [(UInt64, UInt64)])
    func bound(transactionMicroseconds: UInt64, longestMicroseconds: UInt64) {
        var gathering = Gathering()
        let answered = 7 * microsecond
        gathering.published(4, at: answered, after: transactionMicroseconds * microsecond)
        #expect(gathering.wait(at: answered) == longestMicroseconds * microsecond)
        #expect(
            gathering.wait(at: answered + (longestMicroseconds - 1) * microsecond) == microsecond)
        #expect(gathering.wait(at: answered + longestMicroseconds * microsecond) == 0)
    }

    @Test("Ever more rarely for senders that do not come back, and at once for those that do again")
    func inVain() {
        var gathering = Gathering()
        /// - Returns: of so many transactions those that waited.
        func transactions(_ count: Int, returning: Int) -> [Int] {
            var waited: [Int] = []
            for number in 0..<count {
                gathering.published(4, at: 0, after: transaction)
                if gathering.wait(at: 0) > 0 { waited.append(number) }
                gathering.arrived(returning)
            }
            return waited
        }
        // One is skipped after the first wait in vain, then 2, 4, 8 and so on.
        #expect(transactions(32, returning: 1) == [0, 2, 5, 10, 19])
        let rare = transactions(1300, returning: 1)
        #expect(rare.suffix(2).reduce(0) { $1 - $0 } == 65)
        // The first wait that is not in vain is the last rare one.
        let found = transactions(100, returning: 4)
        #expect(found.suffix(3) == [97, 98, 99])
    }
}
