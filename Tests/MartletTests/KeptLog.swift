// SPDX-License-Identifier: Apache-2.0
//
// A log whose lines a test reads, with their metadata. Rests on swift-log.

import Logging
import Synchronization

/// Lines of a broker's log.
final class KeptLog: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    /// Whether a line has all words.
    func has(_ words: String...) -> Bool {
        all.contains { line in words.allSatisfy { line.contains($0) } }
    }

    func logger(_ level: Logger.Level = .warning) -> Logger {
        Logger(label: "test") { _ in Handler(log: self, logLevel: level) }
    }

    private struct Handler: LogHandler {
        let log: KeptLog
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted()
            let line = "\(event.level) \(event.message) " + all.joined(separator: " ")
            log.lines.withLock { $0.append(line) }
        }
    }
}
