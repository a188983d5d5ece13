// SPDX-License-Identifier: Apache-2.0
//
// A page of a list, as senders and administrators get it. Pure.

/// A page of a list. The call that returned the page takes `next` as `after` and returns the following page.
public struct ListPage<Element: Sendable>: Sendable {
    /// Entries of the page, in the order of the list.
    public var entries: [Element]
    /// Cursor of the next page; nil at the end of the list.
    public var next: String?

    /// Makes a page.
    /// - Parameter next: nil for the last page.
    public init(entries: [Element], next: String?) {
        self.entries = entries
        self.next = next
    }

    /// Makes a page from an answer whose last page has an empty cursor.
    package init(entries: [Element], nextCursor: String) {
        self.init(entries: entries, next: nextCursor.isEmpty ? nil : nextCursor)
    }
}

extension ListPage: Equatable where Element: Equatable {}
extension ListPage: Hashable where Element: Hashable {}
