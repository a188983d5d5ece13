// SPDX-License-Identifier: Apache-2.0
//
// Tokens read page by page, for `martlet subscribers`, `audience --tokens` and `report --missing`. Property names are
// the names in the JSON output. Rests on Lists.

import Martlet
import MartletAnswers

extension TokenList {
    mutating func read(
        _ what: String, after: String, limit: Int,
        _ page: (String, Int) async throws -> ListPage<String>
    ) async throws {
        let progress = Progress(what)
        defer { progress.end() }
        next = after
        while let cursor = next, tokens.count < limit {
            let page = try await page(cursor, min(limit - tokens.count, Limits.pageEntriesMax))
            tokens += page.entries
            next = page.next
            progress.show("\(tokens.count)")
        }
    }

    func print(json: Bool) {
        if json { return JSON.print(self) }
        if !tokens.isEmpty { Terminal.print(tokens.joined(separator: "\n")) }
        if let next { Terminal.printError("There are more: --after \(next)") }
    }
}
