// SPDX-License-Identifier: Apache-2.0
//
// The counts of reports on the wire: 15 numbers of 8 bytes, the outcomes last. Rests on `WireReader` and `WireWriter`.

import MartletBase

extension DeliveryCounts {
    static let byteCount = 15 * 8

    init(from reader: inout WireReader) throws(WireError) {
        self.init()
        for field in Self.fields { self[keyPath: field] = try reader.u64() }
    }

    func encode(into writer: inout WireWriter) {
        for field in Self.fields { writer.u64(self[keyPath: field]) }
    }
}
