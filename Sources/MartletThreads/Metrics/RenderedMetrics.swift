// SPDX-License-Identifier: Apache-2.0
//
// Keeps the text of the metrics for a moment, so that many readers cost one rendering (OPS-10). Whoever reaches a port may ask
// for it without a credential, and making it takes a millisecond, so strangers who ask without a pause would buy a core. Rests
// on the standard library.

/// Makes a text anew when the last one is too old.
package struct RenderedMetrics: Sendable {
    /// Ten texts a second cost about one percent of a core, and no collector asks so often.
    package static let life = Duration.milliseconds(100)

    private var last: (madeAt: ContinuousClock.Instant, bytes: [UInt8])?

    package init() {}

    /// The text in UTF-8.
    package mutating func bytes(
        at now: ContinuousClock.Instant = .now, making text: () -> String
    ) -> [UInt8] {
        if let last, now < last.madeAt + Self.life { return last.bytes }
        let bytes = Array(text().utf8)
        last = (now, bytes)
        return bytes
    }
}
