// SPDX-License-Identifier: Apache-2.0
//
// The row with the living runs of several nodes (OPS-7). A broker alone has a single run, and no such row. A node's
// process has a run, and a connection of another run than the living ones is lost. Rests on RecordBytes.
//
//   runs: u16 count ‖ count × (u32 run ‖ u64 process ‖ text node)

import MartletBase

/// The row `runs` of `meta`.
package struct LivingRunsRow {
    package static let key = Key(bytes: Array("runs".utf8))

    /// The run of a node's process.
    package struct Run: Hashable, Sendable {
        package var number: UInt32
        /// A random number of the process. A node knows its own run by the number.
        package var process: UInt64
        package var node: String

        package init(number: UInt32, process: UInt64, node: String) {
            self.number = number
            self.process = process
            self.node = node
        }
    }

    package var runs: [Run] = []

    package init() {}

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .meta)
        for _ in 0..<(try reader.read(UInt16.self)) {
            runs.append(
                Run(
                    number: try reader.read(UInt32.self), process: try reader.read(UInt64.self),
                    node: try reader.text()))
        }
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(UInt16(runs.count))
        for run in runs {
            writer.append(run.number)
            writer.append(run.process)
            writer.append(text: run.node)
        }
        return writer.bytes
    }
}
