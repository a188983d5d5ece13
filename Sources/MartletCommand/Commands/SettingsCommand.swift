// SPDX-License-Identifier: Apache-2.0
//
// `martlet settings`: the file of settings with every setting, its meaning and its default (OPS-2). The text comes from
// the table of settings and from the options of `serve`, so that the file always has the settings that the broker
// reads. Rests on Settings and ArgumentParser.

import ArgumentParser
import Martlet
import MartletAnswers

struct SettingsCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "settings",
        abstract: "Print a file with all settings of a broker, and their defaults, as comments.",
        discussion: """
            The file is one for `martlet serve --config`. A setting given as NAME=VALUE stands in the \
            file with this value, and not as a comment.
            """)

    @Argument(help: ArgumentHelp("Settings with values of your own.", valueName: "name=value"))
    var given: [String] = []

    @OptionGroup var output: OutputOptions

    /// A setting, as --json prints it.
    private struct Answer: Encodable {
        var name: String
        var help: String
        /// nil: the setting has no value unless one is given.
        var defaultValue: String?
        var isRepeating: Bool
    }

    func validate() throws {
        for text in given {
            guard let equals = text.firstIndex(of: "=") else {
                throw ValidationError("'\(text)' is no NAME=VALUE of a setting.")
            }
            let name = String(text[..<equals])
            guard Settings.names.contains(name) else {
                throw ValidationError(
                    "There is no setting '\(name)'."
                        + Nearest.question(about: name, among: Settings.names))
            }
        }
    }

    func perform() async throws {
        let settings = try Self.settings()
        if output.json { return JSON.print(settings) }
        var text = """
            # Settings of Martlet. A line that begins with '#' is a comment. The commented settings show the
            # defaults. A variable of the environment wins over this file: MARTLET_LOG_LEVEL for log-level.

            """
        for setting in settings {
            let values = given.filter { $0.hasPrefix(setting.name + "=") }
                .map { $0.dropFirst(setting.name.utf8.count + 1) }
            text +=
                "\n"
                + Self.comment(
                    setting.help
                        + (setting.isRepeating ? " More than one line of it may stand here." : ""))
            if values.isEmpty {
                text += "#\(setting.name) = \(setting.defaultValue ?? "")\n"
            } else {
                for value in values { text += "\(setting.name) = \(value)\n" }
            }
        }
        Terminal.write(text)
    }

    /// All settings, in the order of the table.
    private static func settings() throws -> [Answer] {
        let dump = try JSONValue(parsing: GatewayCommand._dumpHelp())
        var options: [String: JSONValue] = [:]
        for option in dump["command"]?["arguments"]?.elements ?? [] {
            for name in option["names"]?.elements ?? [] {
                if let name = name["name"]?.string { options[name] = option }
            }
        }
        return try Settings.names.map { name in
            guard let option = options[name] else {
                throw MartletError(.internal, "The setting '\(name)' is no option of serve.")
            }
            let isFlag = option["kind"]?.string == "flag"
            let help = [option["abstract"]?.string, option["discussion"]?.string]
                .compactMap(\.self).joined(separator: " ")
            return Answer(
                name: name, help: help,
                defaultValue: isFlag ? "no" : option["defaultValue"]?.string,
                isRepeating: option["isRepeating"] == .bool(true))
        }
    }

    /// The text as lines of comments of at most 100 columns.
    private static func comment(_ text: String) -> String {
        var lines: [String] = []
        var line = "#"
        for word in text.split(separator: " ") {
            if line.count + 1 + word.count > 100 {
                lines.append(line)
                line = "#"
            }
            line += " " + word
        }
        lines.append(line)
        return lines.joined(separator: "\n") + "\n"
    }
}

extension JSONValue {
    /// The elements of an array; none for another value.
    fileprivate var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }
}
