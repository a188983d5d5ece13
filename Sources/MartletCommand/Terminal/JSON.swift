// SPDX-License-Identifier: Apache-2.0
//
// Results for machines: keys sorted, one object or array for a command, one object a line where
// results come one by one. Rests on FoundationEssentials.

import FoundationEssentials

enum JSON {
    static func line(_ value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(value) else { return "null" }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func print(_ value: some Encodable) { Terminal.print(line(value)) }
}
