// SPDX-License-Identifier: Apache-2.0
//
// `martlet listen`: a device in the role of an installed app. The device registers once, and keeps its credentials,
// taken messages and topics in a file. Rests on MartletDevice and DeviceStateFile.

import ArgumentParser
import FoundationEssentials
import Martlet
import MartletAnswers
import MartletClient
import Synchronization

struct ListenCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen",
        abstract: "Be a device: register or resume, subscribe, print messages.",
        discussion: """
            The first run registers and keeps token, device key, topics and what was received in a \
            state file; later runs resume from it and get what was stored meanwhile. Topics of \
            earlier runs need not be given again. Two runs must not use \
            one state file at a time. A message is acknowledged once it is printed. A note tells when \
            notifications have collapsed, or come late because a device gets few of them at once. When the broker \
            goes away, the device comes back by itself. Ctrl-C ends with 0.

            With --json, the first line is {"event":"ready","token":…}, then each message is one \
            line with "event":"message", each notice that stored messages were discarded one with \
            "event":"deleted", and each other token that the device is given one with "event":"token". \
            With --send-upstream the device first sends its project a message with the data entry \
            "text"; with --json a line with "event":"upstream" tells that.
            """)

    @Option(parsing: .unconditional, help: "The project.")
    var project: String

    @Option(parsing: .unconditional, help: "The app: a package name or bundle ID.")
    var app: String

    @Option(parsing: .unconditional, help: "android, apple or web.")
    var platform: PlatformName = .android

    @Option(
        parsing: .unconditionalSingleValue, help: "Subscribe to this topic; may be given again.")
    var topic: [String] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The state file (default: martlet-PROJECT-APP.json here).", valueName: "path"))
    var state: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            """
            The project's registration key, for a first run (default: the key in the data folder \
            --data, else MARTLET_DATA, else ./martlet-data).
            """, valueName: "key"))
    var registrationKey: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "A file with a ticket of the app's server, for a first run; - means standard input.",
            valueName: "file"))
    var ticket: String?

    @OptionGroup var folder: FolderOptions

    @Option(
        parsing: .unconditional,
        help:
            "The broker's address (default: that of the broker that serves the folder, else 127.0.0.1)."
    )
    var host: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The broker's port, 1 to 65535 (default: that of the broker that serves the folder, else "
                + "\(Limits.defaultPort))."))
    var port: Int?

    @OptionGroup var tls: ClientTLSOptions

    @Option(parsing: .unconditional, help: "How awake the device is: active, background or doze.")
    var deviceState: StateName = .active

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Doze for so many seconds (0 or more, with fractions), then be active.",
            valueName: "seconds"))
    var dozeSeconds: Double?

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            "Send this to the project's senders first; may be given again.", valueName: "text"))
    var sendUpstream: [String] = []

    @Option(
        parsing: .unconditional,
        help:
            "End after so many messages, 0 or more; with 0, which needs --send-upstream, when everything is sent."
    )
    var count: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "End after so many seconds (0 or more, with fractions); with 1 where --count messages have not come by then.",
            valueName: "seconds"))
    var timeout: Double?

    @OptionGroup var output: OutputOptions

    enum PlatformName: String, ExpressibleByArgument, CaseIterable {
        case android, apple, web

        var platform: Platform {
            switch self {
            case .android: .android
            case .apple: .apple
            case .web: .web
            }
        }
    }

    enum StateName: String, ExpressibleByArgument, CaseIterable {
        case active, background, doze

        var state: DeviceState {
            switch self {
            case .active: .active
            case .background: .background
            case .doze: .doze
            }
        }
    }

    func validate() throws {
        guard dozeSeconds ?? 1 > 0 else {
            throw ValidationError("--doze-seconds takes more than 0.")
        }
        guard (1...65_535).contains(port ?? 1) else {
            throw ValidationError("--port takes a number from 1 to 65535.")
        }
        guard count ?? 1 > 0 || (count == 0 && !sendUpstream.isEmpty) else {
            throw ValidationError("--count takes at least 1, or 0 with --send-upstream.")
        }
        guard ticket == nil || registrationKey == nil else {
            throw ValidationError("--ticket and --registration-key exclude each other.")
        }
        guard timeout ?? 1 > 0 else { throw ValidationError("--timeout takes more than 0.") }
    }

    private enum End: Sendable {
        case done
        case interrupted
        case timedOut
        case failed(any Error)
    }

    func perform() async throws {
        let interrupt = Interrupt.prepare()
        let (ends, tell) = AsyncStream.makeStream(of: End.self)
        let running = Mutex<MartletDevice?>(nil)
        Task {
            do {
                try await listen { device in running.withLock { $0 = device } }
                tell.yield(.done)
            } catch {
                tell.yield(.failed(error))
            }
        }
        Task {
            await interrupt.wait()
            tell.yield(.interrupted)
        }
        if let timeout {
            Task {
                try await Task.sleep(for: .seconds(timeout))
                tell.yield(.timedOut)
            }
        }
        var iterator = ends.makeAsyncIterator()
        let end = await iterator.next() ?? .done
        await running.withLock({ $0 })?.close()
        switch end {
        case .done, .interrupted: return
        case .timedOut:
            if count != nil {
                throw MartletError(
                    .deadlineExceeded, "The messages have not all come in \(timeout ?? 0) s.")
            }
        case .failed(let error): throw Self.explained(error, statePath)
        }
    }

    private var statePath: String { state ?? "martlet-\(project)-\(app).json" }

    private static func explained(_ error: any Error, _ path: String) -> any Error {
        guard var error = error as? MartletError else { return error }
        switch error.word {
        case .unregistered, .unauthenticated:
            error.message +=
                " The device is the one in '\(path)'; remove that file to register a new one."
        case .replaced:
            error.message += " Another `martlet listen` uses '\(path)'; give each its own --state."
        default: break
        }
        return error
    }

    /// Prints events until `count` messages have come, or without end.
    private func listen(_ started: (MartletDevice) -> Void) async throws {
        // A device that is registered stays, so what cannot be is refused before.
        for topic in topic { _ = try TopicName(validating: topic) }
        let place = try place()
        let device = try await opened(place)
        started(device)
        let refusals = Task {
            for await refusal in await device.topicRefusals() {
                var error = refusal.error
                error.message = "'\(refusal.topic)': \(error.message)"
                Terminal.printError(FailureReport(error).text(asJSON: output.json))
            }
        }
        defer { refusals.cancel() }
        let patience = Task {
            try await Task.sleep(for: .seconds(1))
            let reason = await device.lastFailure?.message
            Terminal.printError(
                "Not connected to \(place.host) port \(place.port) yet; trying again. "
                    + (reason ?? "Nobody has answered."))
        }
        defer { patience.cancel() }
        try await device.connect()
        patience.cancel()
        for topic in topic { try await device.subscribe(toTopic: topic) }
        let token = device.credentials.token
        announce(token, await device.askedTopics.subscriptions)
        let tokens = Task {
            for await other in await device.registrationTokens() where other != token {
                tell(token: other)
            }
        }
        defer { tokens.cancel() }
        for text in sendUpstream { try await send(text, by: device) }
        if count == 0 { return }
        let waking = dozeSeconds.map { seconds in
            Task {
                try await Task.sleep(for: .seconds(seconds))
                await device.report(.active)
            }
        }
        defer { waking?.cancel() }
        var left = count ?? .max
        var notes = ListenNotes(
            after: await device.opening?.acknowledgedThrough ?? 0,
            isAwake: deviceState != .doze && dozeSeconds == nil)
        for try await event in device.events {
            switch event {
            case .message(let message):
                let note = await arrival(of: message, at: device).flatMap { notes.note(on: $0) }
                Terminal.print(
                    output.json
                        ? ListenLine.json(message, platform: platform.platform)
                        : ListenLine.text(message, platform: platform.platform, note: note))
                // What nobody can read comes again.
                try Terminal.requirePrinted()
                await device.acknowledge(message)
                await device.displayed(message)
                left -= 1
            case .deleted(let deleted):
                Terminal.print(
                    output.json
                        ? JSON.line(DeletedLine(deleted)) : DeletedLine.text(deleted))
                try Terminal.requirePrinted()
                await device.acknowledge(deleted)
            }
            // While more messages wait, the file is not saved: a crash costs no more than repeated messages.
            if await device.bufferedMessages == 0 || left == 0 { try await device.save() }
            if left == 0 { return }
        }
    }

    private func arrival(
        of message: IncomingMessage, at device: MartletDevice
    ) async -> ListenNotes.Arrival? {
        guard let opened = await device.opening?.instant, let now = await device.brokerClock else {
            return nil
        }
        return ListenNotes.Arrival(
            streamID: message.streamID,
            isCollapsible: message.isStored && message.notification != nil,
            accepted: message.accepted, arrived: now, opened: opened)
    }

    /// Where the broker is.
    private struct Place {
        var host: String
        var port: Int
        var options: DeviceOptions
        /// Whether the broker serves the folder of --data.
        var isOfFolder: Bool
    }

    /// The broker: as typed, else that of the folder.
    private func place() throws -> Place {
        let options = try tls.applied(to: DeviceOptions())
        guard host == nil, port == nil,
            let served = try folder.access.place(of: options)
        else {
            return Place(
                host: host ?? "127.0.0.1", port: port ?? Limits.defaultPort, options: options,
                isOfFolder: false)
        }
        return Place(
            host: served.host, port: served.port, options: served.options, isOfFolder: true)
    }

    private func opened(_ place: Place) async throws -> MartletDevice {
        let file = DeviceStateFile(path: statePath)
        let isNew = try file.load() == nil
        let (host, port) = (place.host, place.port)
        if isNew, place.isOfFolder { try await folder.access.requireProject(project) }
        var options = place.options
        if let ticket {
            if isNew {
                let input = try KeyInput(path: ticket == "-" ? nil : ticket)
                let text = String(decoding: input.secret, as: UTF8.self)
                options.registration = .ticket { text }
            }
        } else if let key = try registrationKey ?? folder.access.registrationKey(of: project) {
            options.registration = .key(key)
        }
        let open = { [options] in
            try await MartletDevice.open(
                host: host, port: port, projectID: project, appName: app,
                platform: platform.platform, store: file,
                deviceState: dozeSeconds == nil ? deviceState.state : .doze, options: options)
        }
        guard isNew else { return try await open() }
        return try await showing("Registering at \(host) port \(port)") { try await open() }
    }

    private func send(_ text: String, by device: MartletDevice) async throws {
        let messageID = UUID().uuidString
        try await device.sendUpstream(Message(data: ["text": text]), messageID: messageID)
        if output.json { return JSON.print(Sent(messageID: messageID)) }
        Terminal.print("sent to the project as \(messageID)")
    }

    // MARK: Printing

    private struct Sent: Encodable {
        var event = "upstream"
        var messageID: String
    }

    private struct TokenLine: Encodable {
        var event: String
        var token: String
    }

    private func announce(_ token: String, _ topics: [String]) {
        if output.json { return JSON.print(TokenLine(event: "ready", token: token)) }
        Terminal.print("Token \(token)")
        let topics = topics.isEmpty ? "" : ", subscribed to " + topics.joined(separator: ", ")
        Terminal.print(
            "Listening as \(app) on \(platform.rawValue) in project \(project)\(topics). "
                + "Ctrl-C ends.")
    }

    private func tell(token: String) {
        if output.json { return JSON.print(TokenLine(event: "token", token: token)) }
        Terminal.print("Token \(token)")
    }
}
