// SPDX-License-Identifier: Apache-2.0
//
// What is said of a store that does not take what it should. Rests on StoreTrouble.

import Martlet
import MartletThreads
import Testing

@Suite("Refusals of the store")
struct StoreTroubleTests {
    @Test("OPS-12 one line a second tells of all of them")
    func lines() {
        var trouble = StoreTrouble()
        let lines = stride(from: Int64(0), to: 3000, by: 10).compactMap {
            trouble.note("no space left", at: $0)
        }
        #expect(lines == [1, 100, 100])
        #expect(trouble.note("no space left", at: 60_000) == 100)
    }

    @Test("OPS-12 health is bad until ten seconds after the last")
    func health() {
        var trouble = StoreTrouble()
        #expect(trouble.lasting(at: 0) == nil)
        _ = trouble.note("no space left", at: 5)
        _ = trouble.note("input/output error", at: 1000)
        #expect(trouble.lasting(at: 1000) == "input/output error")
        #expect(trouble.lasting(at: 10_999) == "input/output error")
        #expect(trouble.lasting(at: 11_000) == nil)
    }
}
