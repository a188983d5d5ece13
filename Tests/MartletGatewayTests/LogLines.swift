// SPDX-License-Identifier: Apache-2.0
//
// What a logger wrote, for tests that read it. Rests on swift-log.

import Logging
import Synchronization

/// Lines of a log, with their metadata.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    var logger: Logger {
        Logger(label: "test") { _ in Handler(lines: self) }
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }
            let text = all.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
            lines.lines.withLock { $0.append("\(event.message) \(text)") }
        }
    }
}
