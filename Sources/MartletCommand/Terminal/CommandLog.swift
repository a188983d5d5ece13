// SPDX-License-Identifier: Apache-2.0
//
// The log of a command: lines on standard error, as text or as JSON objects. The level belongs to the process, because
// SIGHUP changes the level while loggers are in use (OPS-11). Rests on swift-log.

import ArgumentParser
import MartletAnswers
import FoundationEssentials
import Logging
import Synchronization

/// A value of --log-format.
enum LogFormat: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}

struct CommandLog: LogHandler {
    private static let level = Mutex(Logger.Level.notice)

    private let label: String
    private let format: LogFormat
    var metadata: Logger.Metadata = [:]

    init(label: String, format: LogFormat) {
        self.label = label
        self.format = format
    }

    /// The level of all logs of the process.
    var logLevel: Logger.Level {
        get { Self.level.withLock { $0 } }
        set { Self.setLevel(newValue) }
    }

    static func setLevel(_ new: Logger.Level) { level.withLock { $0 = new } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    private struct Line: Encodable {
        var time: String
        var level: String
        var label: String
        var message: String
        var metadata: [String: String]?
    }

    func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { $1 } } ?? metadata
        Terminal.printError(
            Self.line(format, event.level, label, all.mapValues { "\($0)" }, "\(event.message)"))
    }

    /// The line that stands for lines that could not be written, with its new line.
    static func loss(of count: Int, _ format: LogFormat) -> String {
        line(
            format, .warning, "martlet", [:],
            "\(count) \(count == 1 ? "line was" : "lines were") not written: the log was not read fast enough, or its disk was full"
        ) + "\n"
    }

    private static func line(
        _ format: LogFormat, _ level: Logger.Level, _ label: String, _ fields: [String: String],
        _ message: String
    ) -> String {
        let time = Date.now.formatted(
            Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        switch format {
        case .json:
            return JSON.line(
                Line(
                    time: time, level: level.rawValue, label: label, message: message,
                    metadata: fields.isEmpty ? nil : fields))
        case .text:
            let words = fields.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }
            return "\(time) \(level) \(label):\(words.joined()) \(message)".withoutControls
        }
    }
}

extension Logger {
    /// A logger to standard error, because standard output holds only results. All loggers share the level.
    static func standardError(_ level: Logger.Level, _ format: LogFormat = .text) -> Logger {
        CommandLog.setLevel(level)
        return Logger(label: "martlet") { CommandLog(label: $0, format: format) }
    }
}
