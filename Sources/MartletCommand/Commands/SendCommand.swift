// SPDX-License-Identifier: Apache-2.0
//
// `martlet send`: sends a message from options or from a JSON file. Rests on SenderOptions.

import ArgumentParser
import FoundationEssentials
import Glibc
import Martlet
import MartletAnswers
import MartletFiles

struct SendCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send a message to a token, a topic, a condition, a group, or several of these.",
        discussion: """
            When the command ends with 0, the message is on disk. It does not mean delivered.

            With --to-token, --to-topic, --to-condition and --to-group, again and again, the message \
            is for the instances that any of them means, each once. Tokens that it is not for are \
            printed with the reason; that does not change the exit code.

            A file holds {"message": {"topic": "…", "notification": {"title": "…", "body": "…", \
            "image": "…"}, "data": {"key": "value"}}}, with "token" or "condition" in place of \
            "topic"; the "message" around it may be left out. The blocks "android", "apns" and \
            "webpush" say what differs for a platform, as in FCM's HTTP v1 interface: \
            {"android": {"ttl": "4500s", "priority": "high", "collapse_key": "…", \
            "notification": {"title": "…", "icon": "…"}}, "apns": {"headers": \
            {"apns-expiration": "…", "apns-priority": "5"}, "payload": {"aps": {"badge": 1}}}, \
            "webpush": {"headers": {"TTL": "60", "Urgency": "high", "Topic": "…"}}}.

            Here --data is data of the message; the data folder is --data-folder.
            """)

    @Option(
        parsing: .unconditional, help: "Send to the instance with this registration token.")
    var token: String?

    @Option(parsing: .unconditional, help: "Send to all subscribers of this topic.")
    var topic: String?

    @Option(parsing: .unconditional, help: "Send to all instances that satisfy this condition.")
    var condition: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Send to the members of the group with this key.", valueName: "key"))
    var group: String?

    @OptionGroup var several: SeveralTargets

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Read the message, its target included, from a JSON file; - is standard input.",
            valueName: "path"))
    var file: String?

    @Option(parsing: .unconditional, help: "The notification's title.")
    var title: String?

    @Option(parsing: .unconditional, help: "The notification's body.")
    var body: String?

    @Option(parsing: .unconditional, help: "The URL of the notification's image.")
    var image: String?

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("Data for the app; may be given again.", valueName: "key=value"))
    var data: [String] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "For how many seconds the message is of interest, 0 to \(Limits.timeToLiveSecondsMax); by default as long as the project allows.",
            valueName: "seconds"))
    var ttl: UInt32?

    @Option(parsing: .unconditional, help: "normal or high.")
    var priority: Priority?

    @Option(parsing: .unconditional, help: "Replace a stored message with the same key.")
    var collapseKey: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Only to instances of this app.", valueName: "app"))
    var restrictedPackageName: String?

    @Option(
        parsing: .unconditional,
        help: "The number on the app's icon, on Apple's platforms, 0 to \(UInt32.max).")
    var apnsBadge: UInt32?

    @Option(parsing: .unconditional, help: "The sound, on Apple's platforms.")
    var apnsSound: String?

    @Flag(help: "Wake the app without showing anything, on Apple's platforms.")
    var apnsContentAvailable = false

    @Option(
        parsing: .unconditional,
        help: "Send it once, however often this command is repeated with this key in 24 hours.")
    var idempotencyKey: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Send it then, 0 to 28 days from now: 2026-01-31T18:00:00Z, or +90s, +5m, +2h, +1d.",
            valueName: "instant"))
    var at: SendInstant?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Only to those that this earlier message was for and that have not got it.",
            valueName: "message"))
    var notReceived: String?

    @Flag(help: "Keep what becomes of it for `martlet receipts`.")
    var receipts = false

    @Flag(help: "Check everything and send nothing.")
    var validateOnly = false

    @OptionGroup var sender: SenderOptions

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The data folder (default: MARTLET_DATA, else ./martlet-data).", valueName: "dir"))
    var dataFolder: String?

    @OptionGroup var output: OutputOptions

    enum Priority: String, ExpressibleByArgument, CaseIterable {
        case normal, high
    }

    func validate() throws {
        for entry in data where !entry.contains("=") {
            throw ValidationError(
                "--data takes key=value, not '\(entry)'. (The data folder is --data-folder.)")
        }
        let hasApple = apnsBadge != nil || apnsSound != nil || apnsContentAvailable
        if file != nil
            && !(title == nil && body == nil && image == nil && data.isEmpty && !hasApple)
        {
            throw ValidationError("--file holds the whole message; leave the other texts out.")
        }
    }

    func perform() async throws {
        let message = try outgoing()
        let condition = message.target.kind == .condition ? message.target.text : nil
        let answer = try await pointing(at: condition) {
            try await sender.connection.ask(project: sender.project, folder: dataFolder) { sender in
                SendAnswer(try await showing("Sending") { try await sender.send(message) })
            }
        }
        if let id = answer.messageID {
            sender.note(
                "message.send",
                "\(id) to \(message.target.kind.name) \(message.target.text), "
                    + "\(answer.recipients) recipients", folder: dataFolder)
        }
        if output.json { return JSON.print(answer) }
        let instances = answer.recipients == 1 ? "1 instance" : "\(answer.recipients) instances"
        if let messageID = answer.messageID, let place = answer.deferredPlace {
            Terminal.print("\(messageID)  deferred, number \(place) of those that wait")
        } else if let messageID = answer.messageID {
            Terminal.print(
                at == nil
                    ? "\(messageID)  accepted for \(instances)\(Self.remarks(answer))"
                    : "\(messageID)  scheduled")
        } else {
            Terminal.print("valid; would be accepted for \(instances)\(Self.remarks(answer))")
        }
        for failure in answer.failures ?? [] {
            Terminal.print("\(failure.token.withoutControls)  \(failure.error)")
        }
    }

    private static func remarks(_ answer: SendAnswer) -> String {
        var text = ""
        if answer.inactive > 0 { text += ", \(answer.inactive) of them inactive" }
        if answer.rateLimited > 0 { text += "; \(answer.rateLimited) skipped by their quota" }
        if let failures = answer.failures, !failures.isEmpty {
            text += "; \(failures.count) of \(failures.count + (answer.successes ?? 0)) failed:"
        }
        return text
    }

    private func outgoing() throws -> OutgoingMessage {
        var targets: [MessageTarget] = []
        if let token { targets.append(.token(token)) }
        if let topic { targets.append(.topic(topic)) }
        if let condition { targets.append(.condition(condition)) }
        if let group { targets.append(.group(group)) }
        if !several.targets.isEmpty { targets.append(.several(several.targets)) }
        var message = Message()
        var isValidation = validateOnly
        if let file {
            let read = try MessageFile(json: try Self.contents(of: file))
            targets += read.targets
            message = read.message
            isValidation = isValidation || read.validateOnly
        } else {
            if title != nil || body != nil || image != nil {
                message.notification = .init(title: title, body: body, image: image)
            }
            message.data = data.map { entry in
                let parts = entry.split(
                    separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return .init(key: String(parts[0]), value: String(parts[1]))
            }
            let payload = Message.ApplePayload(
                badge: apnsBadge, sound: apnsSound, contentAvailable: apnsContentAvailable)
            if payload != .init() { message.apns = .init(payload: payload) }
        }
        guard let target = targets.first, targets.count == 1 else {
            throw MartletError(
                .invalidArgument,
                targets.isEmpty
                    ? "The message has no target. Give a token, a topic, a condition or a group."
                    : "The message has \(targets.count) targets. Give one: a token, a topic, a "
                        + "condition or a group; or each with --to-token and so on.",
                field: "message")
        }
        return OutgoingMessage(
            to: target, message, timeToLiveSeconds: ttl,
            priority: priority.map { $0 == .high ? .high : .normal }, collapseKey: collapseKey,
            restrictedPackageName: restrictedPackageName, wantsReceipts: receipts,
            idempotencyKey: idempotencyKey, sendAt: at?.instant(after: .now),
            notReceived: notReceived, validateOnly: isValidation)
    }

    /// Longest file, in bytes. A message has at most 4000 bytes for each platform, so a file with targets, names and
    /// escapes stays far below the bound.
    private static let fileBytesMax = 1 << 20

    private static func contents(of path: String) throws(MartletError) -> [UInt8] {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        defer { if path != "-", descriptor >= 0 { close(descriptor) } }
        do throws(PrivateFile.Failure) {
            guard descriptor >= 0 else { throw PrivateFile.Failure(code: errno) }
            return try EditedText.bytes(of: descriptor, bytesMax: fileBytesMax)
        } catch {
            guard error.code == EFBIG else {
                throw MartletError(
                    .notFound,
                    "'\(path)' cannot be read (\(error.text)); check the path and who may read it.",
                    field: "file")
            }
            throw MartletError(
                .invalidArgument, "'\(path)' has more than \(fileBytesMax) bytes.", field: "file")
        }
    }
}
