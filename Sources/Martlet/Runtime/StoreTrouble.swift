// SPDX-License-Identifier: Apache-2.0
//
// What the store could not take lately. A full disk refuses some thousand commands a second: one line a
// second says so, with how many there were, and whoever asks for the broker's health hears it until a while
// after the last. Rests on nothing: whoever commits tells it the time.

import MartletBase

/// Refusals of the store.
package struct StoreTrouble: Sendable {
    /// How often a line is written at most.
    package static let tellingMilliseconds: Int64 = 1000
    /// How long after a refusal the broker is not well: what is refused need not come every second.
    package static let lastingMilliseconds: Int64 = 10_000

    private var last: (text: String, at: Int64)?
    private var toldAt: Int64?
    private var untoldCount = 0

    package init() {}

    /// - Parameter now: milliseconds of a clock that only rises.
    /// - Returns: how many refusals the line tells of that is to be written now; nil: none is.
    package mutating func note(_ text: String, at now: Int64) -> Int? {
        last = (text, now)
        untoldCount += 1
        if let toldAt, now - toldAt < Self.tellingMilliseconds { return nil }
        toldAt = now
        defer { untoldCount = 0 }
        return untoldCount
    }

    /// Why the store does not take what it should; nil: it does.
    package func lasting(at now: Int64) -> String? {
        guard let last, now - last.at < Self.lastingMilliseconds else { return nil }
        return last.text
    }
}
