// SPDX-License-Identifier: Apache-2.0
//
// Results for machines, with sorted keys: a single object or array on one line. Rests on FoundationEssentials.

import FoundationEssentials

package enum JSON {
    /// The value as JSON on one line.
    package static func line(_ value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(value) else { return "null" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
