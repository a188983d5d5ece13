// SPDX-License-Identifier: Apache-2.0
//
// The log lines of a simulated broker, as words of the world's trace. Rests on Trace.

import Logging

/// Tells the log lines of a process to the reader of a trace.
struct TraceLog: LogHandler, @unchecked Sendable {
    let trace: Trace
    let name: String
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    init(_ trace: Trace, name: String) {
        self.trace = trace
        self.name = name
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let pairs = (event.metadata ?? [:]).sorted { $0.key < $1.key }
        let text = pairs.map { " \($0.key)=\($0.value)" }.joined()
        trace.explain("\(name): \(event.message)\(text)")
    }
}
