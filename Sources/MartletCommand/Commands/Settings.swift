// SPDX-License-Identifier: Apache-2.0
//
// Sources of settings for `serve` and `gateway` (OPS-2): a file, then the environment, then the command line; a later
// source wins. The settings of file and environment become flags in front of the typed flags, so that all settings
// are read and judged in one way. Rests on ArgumentParser and EditedText.

import ArgumentParser
import FoundationEssentials
import Glibc
import MartletFiles

/// Settings outside of the command line.
package enum Settings {
    /// Names of settings. A name is a flag without the leading hyphens, and a name in the file. In the environment
    /// the name is in capitals, with `_` for `-` and `MARTLET_` in front.
    static let names: [String] = [
        "data", "cluster", "node", "node-address", "host", "port", "listen", "plain-elsewhere",
        "proxy", "tls-certificate", "tls-key",
        "tls-client-ca", "tls-client-senders", "transport", "require-io-uring", "loops",
        "connections-per-loop", "idle-seconds", "handshake-seconds", "frame-seconds", "limit",
        "deliveries-per-second", "log-level", "log-format", "metrics", "http",
        "http-certificate", "http-key", "http-plain-elsewhere", "http-token-url",
        "access-token-seconds", "http-body-bytes", "http-requests", "http-connections",
        "http-connections-per-address", "http-proxy-header",
        "http-idle-seconds", "http-request-seconds", "http-retry-seconds",
        "web-push-origin", "web-push-project", "xmpp", "xmpp-certificate", "xmpp-key", "apns",
        "apns-url", "apns-sandbox-url", "web-clients", "bridge-ca", "bridge-private-addresses",
        "console",
    ]
    /// Settings with the values yes and no. `no` is a flag too, because the value of a later source undoes the value
    /// of an earlier source.
    private static let flags: Set<String> = [
        "plain-elsewhere", "http-plain-elsewhere", "require-io-uring", "apns", "web-clients",
        "bridge-private-addresses", "console",
    ]
    /// Settings that are valid only together, and so are not judged singly.
    private static let pairs: Set<String> = [
        "tls-certificate", "tls-key", "tls-client-ca", "tls-client-senders",
        "http-certificate", "http-key", "xmpp-certificate", "xmpp-key", "cluster", "node",
        "node-address",
    ]
    private static let commands: Set<String> = ["serve", "gateway"]

    /// A setting and the place of its value.
    private struct Setting {
        var name: String
        var value: String
        var place: String
    }

    /// The arguments of a command line, with the settings of file and environment inserted.
    static func expanded(_ arguments: [String]) throws -> [String] {
        guard let command = arguments.first, commands.contains(command) else { return arguments }
        let environment = environment
        var settings: [Setting] = []
        if let file = file(arguments) ?? environment["MARTLET_CONFIG"] {
            settings += try read(file)
        }
        for name in names {
            let variable = variable(name)
            if let value = environment[variable] {
                settings.append(Setting(name: name, value: value, place: variable))
            }
        }
        try refuseUnknown(environment)
        try refuseOverridden(settings, arguments)
        var added: [String] = []
        for setting in settings { added += try words(setting) }
        return [command] + added + arguments.dropFirst()
    }

    /// Martlet's variables of the environment. The files that give a container or a service its variables are edited as
    /// settings are, and pass a CR at the end of a line on.
    static var environment: [String: String] {
        prefixed.filter { !ServiceVariables.contain($0.key, $0.value) }
    }

    /// The names of variables that Kubernetes sets for a service called `martlet`, and that are passed over.
    static var serviceVariables: [String] {
        prefixed.filter { ServiceVariables.contain($0.key, $0.value) }.keys.sorted()
    }

    private static var prefixed: [String: String] {
        ProcessInfo.processInfo.environment.filter { $0.key.hasPrefix("MARTLET_") }
            .mapValues { trimmed($0[...]) }
    }

    /// Variables that are no settings. The last one is of the kernels for sets.
    private static let otherVariables: Set<String> = [
        "MARTLET_CONFIG", "MARTLET_KEY", "MARTLET_SIMD",
    ]

    private static func variable(_ name: String) -> String {
        "MARTLET_" + name.uppercased().replacing("-", with: "_")
    }

    private static let everySetting =
        "  'martlet settings' prints all of them; a variable is MARTLET_LOG_LEVEL for log-level."

    /// OPS-2: a misspelt variable would be a setting that does not hold.
    private static func refuseUnknown(_ environment: [String: String]) throws(Misuse) {
        let known = otherVariables.union(names.map(variable))
        let unknown = environment.keys.filter { !known.contains($0) }
        guard let first = unknown.min() else { return }
        throw Misuse(
            "\(first): there is no such setting."
                + Nearest.question(about: first, among: names.map(variable)), help: everySetting)
    }

    /// OPS-2: settings without an effect beside another one are refused, wherever both stand: somebody counts on them.
    private static func refuseOverridden(
        _ settings: [Setting], _ arguments: [String]
    ) throws(Misuse) {
        func place(_ name: String) -> String? {
            let isTyped = arguments.contains { $0 == "--" + name || $0.hasPrefix("--\(name)=") }
            if isTyped { return "--" + name }
            return settings.last { $0.name == name }.map { "'\(name)' (\($0.place))" }
        }
        guard let listen = place("listen") else { return }
        for name in ["host", "port"] {
            guard let other = place(name) else { continue }
            throw Misuse(
                "\(other) has no effect beside \(listen), which names address and port. Leave one out."
            )
        }
    }

    /// Whether a file has settings.
    /// - Parameter option: the value of --config.
    static func hasFile(_ option: String?) -> Bool {
        option != nil || environment["MARTLET_CONFIG"] != nil
    }

    /// The place of the data folder's name, if that is the environment or a file; nil: the command line, or the
    /// default.
    static func sourceOfFolder(_ arguments: [String]) -> String? {
        let isTyped = arguments.contains {
            $0 == "--data" || $0 == "--data-folder" || $0.hasPrefix("--data=")
                || $0.hasPrefix("--data-folder=")
        }
        let environment = environment
        guard !isTyped else { return nil }
        if environment["MARTLET_DATA"] != nil { return "MARTLET_DATA" }
        guard let file = file(arguments) ?? environment["MARTLET_CONFIG"],
            let settings = try? read(file), settings.contains(where: { $0.name == "data" })
        else { return nil }
        return file
    }

    /// The data folder in the file of settings, if the environment names another one; nil: they do not differ.
    static func overriddenFolder(_ arguments: [String]) -> (file: String, folder: String)? {
        guard sourceOfFolder(arguments) == "MARTLET_DATA" else { return nil }
        let environment = environment
        guard let file = file(arguments) ?? environment["MARTLET_CONFIG"],
            let setting = try? read(file).last(where: { $0.name == "data" }),
            setting.value != environment["MARTLET_DATA"]
        else { return nil }
        return (file, setting.value)
    }

    /// The file of settings that the package installs.
    static let systemFile = "/etc/martlet/martlet.conf"

    /// The data folder of a command that serves nothing, without --data: that of MARTLET_DATA, else of the file
    /// MARTLET_CONFIG, else of the file that the package installs, if this user may read it. So a command finds the
    /// folder of the broker that the system runs.
    /// - Throws: the fault of a file.
    package static func folder(
        in environment: [String: String] = environment, systemFile: String = systemFile
    ) throws(Misuse) -> String? {
        if let folder = environment["MARTLET_DATA"] { return folder }
        let usual = access(systemFile, R_OK) == 0 ? systemFile : nil
        guard let file = environment["MARTLET_CONFIG"] ?? usual else { return nil }
        return try read(file).last { $0.name == "data" }?.value
    }

    /// The file given with --config.
    private static func file(_ arguments: [String]) -> String? {
        for (index, argument) in arguments.enumerated() {
            if argument == "--config", index + 1 < arguments.count { return arguments[index + 1] }
            if argument.hasPrefix("--config=") { return String(argument.dropFirst(9)) }
        }
        return nil
    }

    /// Reads `name = value` from each line of a file. A line with `#` in front is a comment.
    private static func read(_ file: String) throws(Misuse) -> [Setting] {
        let text: EditedText
        do throws(PrivateFile.Failure) { text = try EditedText(contentsOf: file) } catch {
            throw Misuse(
                "The file of settings '\(file)' (--config or MARTLET_CONFIG) cannot be read: "
                    + (error.code == EISDIR ? "it is a folder; name a file in it." : error.text))
        }
        var settings: [Setting] = []
        for (index, bytes) in text.lines.enumerated() {
            let place = "\(file), line \(index + 1)"
            guard let line = String(validating: bytes, as: UTF8.self).map({ trimmed($0[...])[...] })
            else { throw Misuse("\(place): the line is not UTF-8") }
            // The next setting would be part of this one's value, or of a comment.
            if let end = line.unicodeScalars.first(where: { Character($0).isNewline }) {
                let digits = String(end.value, radix: 16, uppercase: true)
                let zeros = String(repeating: "0", count: 4 - digits.count)
                throw Misuse("\(place): U+\(zeros)\(digits) ends no line here; write LF")
            }
            guard !line.isEmpty, line.first != "#" else { continue }
            guard let equals = line.firstIndex(of: "=") else {
                throw Misuse("\(place): write name = value")
            }
            let name = trimmed(line[..<equals])
            guard names.contains(name) else {
                throw Misuse(
                    "\(place): there is no setting '\(name)'."
                        + Nearest.question(about: name, among: names), help: everySetting)
            }
            settings.append(
                Setting(
                    name: name, value: trimmed(line[line.index(after: equals)...]), place: place))
        }
        return settings
    }

    /// The flags for a setting. Each setting is judged singly, because an error can then name its place.
    private static func words(_ setting: Setting) throws(Misuse) -> [String] {
        guard !setting.value.isEmpty else {
            throw Misuse(
                "\(setting.place): the value of '\(setting.name)' is missing; leave the "
                    + "setting out for its default")
        }
        let words: [String]
        if flags.contains(setting.name) {
            switch setting.value {
            case "yes": words = ["--" + setting.name]
            case "no": words = ["--no-" + setting.name]
            default: throw Misuse("\(setting.place): write yes or no")
            }
        } else {
            words = ["--\(setting.name)=\(setting.value)"]
        }
        if pairs.contains(setting.name) { return words }
        do { _ = try ServeCommand.parse(words) } catch {
            throw Misuse(
                "\(setting.place): \(ServeCommand.message(for: error))",
                help: ServeCommand.helpLine(for: error))
        }
        return words
    }

    private static func trimmed(_ text: Substring) -> String {
        let start = text.drop { $0.isWhitespace }
        let end = start.lastIndex { !$0.isWhitespace }
        return end.map { String(start[...$0]) } ?? ""
    }
}
