// SPDX-License-Identifier: Apache-2.0
//
// Lists that commands read page by page, and the texts of values that several commands print. Rests on Martlet.

import Martlet

/// Reads all pages of a list, one after the other.
func allPages<Entry: Sendable>(
    _ what: String, _ page: (String) async throws -> ListPage<Entry>
) async throws -> [Entry] {
    let progress = Progress(what)
    defer { progress.end() }
    var entries: [Entry] = []
    var after = ""
    while true {
        let next = try await page(after)
        entries += next.entries
        progress.show("\(entries.count)")
        guard let following = next.next else { return entries }
        after = following
    }
}

extension ReceiptKind {
    var name: String {
        switch self {
        case .received: "received"
        case .displayed: "displayed"
        case .opened: "opened"
        }
    }
}
