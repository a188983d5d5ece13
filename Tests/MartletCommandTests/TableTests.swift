// SPDX-License-Identifier: Apache-2.0
//
// Tables on a terminal have foreign texts, such as names that administrators of a project gave. Rests on MartletCommand.

import MartletCommand
import Testing

@Suite("Commands: tables")
struct TableTests {
    @Test("GW-9 no cell moves the cursor, changes a colour, or begins a line of its own")
    func controls() {
        var table = Table(columns: [("KEY ID", .left), ("NAME", .left)])
        table.add(row: ["k1", "red\u{1B}[31m\nk2 \u{9B}2J\u{7F}x"])
        let lines = table.text.split(separator: "\n")
        #expect(lines == ["KEY ID  NAME", "k1      red [31m k2  2J x"])
    }
}
