// SPDX-License-Identifier: Apache-2.0
//
// Results for machines, with sorted keys. A command prints a single object or array; a series of results is an object
// on each line. Rests on FoundationEssentials.

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
