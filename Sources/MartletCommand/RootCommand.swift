// SPDX-License-Identifier: Apache-2.0
//
// `martlet`: the broker, a device, and every task of an administrator as commands. This file lists the commands, and
// holds the common parts: exit codes, environment. Two programs have these commands: `martlet` has every part, and
// `martlet-core` is built in a few minutes. So the commands are a module. Rests on ArgumentParser.

package import ArgumentParser
import Dispatch
import Glibc
import Martlet

package struct RootCommand: AsyncParsableCommand {
    package init() {}

    package static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "martlet",
            abstract: "A push-messaging broker: tokens, topics, conditions.",
            discussion: """
                Commands that look after projects and keys work on a data folder: through the broker that \
                serves it, or on the folder itself when none does.

                Environment:
                    MARTLET_DATA    the data folder, where --data is not given
                    MARTLET_CONFIG  a file of settings: serve and gateway take all of them,
                                    and the other commands the name of the data folder
                    MARTLET_KEY     a server key, where --key is not given
                    MARTLET_*       whatever serve and gateway take:
                                    MARTLET_LOG_LEVEL for --log-level

                Exit codes:
                    0    done
                    1    refused or failed; the reason is on standard error
                    64   the command line is wrong
                    130  ended by a second signal before the work was finished

                With --json, results are JSON on standard output, and a refusal is one JSON object on \
                standard error.
                """,
            version: ProgramParts.version,
            subcommands: [
                ServeCommand.self, GatewayCommand.self, ListenCommand.self, RotateCommand.self,
                SendCommand.self,
                CancelCommand.self, ReceiptsCommand.self, ReportCommand.self, UpstreamCommand.self,
                ProjectCommand.self, KeyCommand.self, ServiceAccountCommand.self,
                RegistrationKeyCommand.self, TicketKeyCommand.self, APNsCommand.self,
                WebPushCommand.self, AppCommand.self,
                GroupCommand.self,
                QuotasCommand.self,
                TopicsCommand.self, SubscribersCommand.self, SubscribeCommand.self,
                UnsubscribeCommand.self, UnregisterCommand.self, AudienceCommand.self,
                ExplainCommand.self,
                FanoutsCommand.self, TopCommand.self, CheckCommand.self, BackupCommand.self,
                RestoreCommand.self, DemoCommand.self, EmulatorCommand.self, SettingsCommand.self,
                SizeCommand.self, ConsoleCommand.self, AuditCommand.self, ClusterCommand.self,
            ])
    }
}

extension RootCommand {
    /// Runs a program's commands. The settings of file and environment for `serve` and `gateway` go in front of the
    /// typed arguments.
    /// - Parameter parts: the parts that not every program has.
    package static func run(with parts: ProgramParts) -> Never {
        do throws(MartletError) { try ProcessStart.prepare() } catch {
            Terminal.printError(FailureReport(error).text(asJSON: false))
            Glibc.exit(1)
        }
        Interrupt.prepareAll()
        ProgramParts.install(parts)
        Task {
            let code = await run()
            guard code == EXIT_SUCCESS else { Glibc.exit(code) }
            do throws(MartletError) { try Terminal.requirePrinted() } catch {
                Terminal.printError(FailureReport(error).text(asJSON: false))
                Glibc.exit(EXIT_FAILURE)
            }
            Glibc.exit(code)
        }
        dispatchMain()
    }

    /// Runs the command that was typed. ArgumentParser's own `main` does not see that its texts could not be printed.
    /// - Returns: the exit code.
    private static func run() async -> Int32 {
        let typed = Array(CommandLine.arguments.dropFirst())
        do {
            try requireCommand(typed)
            var command = try await asyncParseAsRoot(Settings.expanded(typed))
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return EXIT_SUCCESS
        } catch {
            let code = (error as? Misuse).map { _ in .validationFailure } ?? exitCode(for: error)
            let text = fullMessage(for: error)
            if code.isSuccess {
                Terminal.print(text)
            } else if !text.isEmpty {
                let misuse =
                    error as? Misuse ?? Misuse(message(for: error), help: addition(to: error))
                Terminal.printError(FailureReport(misuse).text(asJSON: typed.contains("--json")))
            }
            return code.rawValue
        }
    }

    /// ArgumentParser's own errors begin with their message; `FailureReport` gives all errors one beginning.
    package static var _errorPrefix: String { "" }

    /// What ArgumentParser adds to the message of an error: the option's help, and the usage.
    private static func addition(to error: any Error) -> String {
        let message = message(for: error)
        let text = fullMessage(for: error)
        return text.hasPrefix(message)
            ? String(text.dropFirst(message.count).drop { $0 == "\n" }) : ""
    }

    /// Tells a mistyped command before its options are looked at: ArgumentParser reads on, and names the first option
    /// behind it as unknown.
    package static func requireCommand(_ words: [String]) throws(Misuse) {
        var words = words[...]
        if words.first == "help" { words.removeFirst() }
        var command: any ParsableCommand.Type = RootCommand.self
        var path = "martlet"
        while let word = words.popFirst(), !word.hasPrefix("-") {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty else { return }
            guard let next = commands.first(where: { $0._commandName == word }) else {
                throw Misuse(
                    "There is no command '\(path) \(word)'."
                        + Nearest.question(about: word, among: commands.map { $0._commandName }),
                    help: "  See '\(path) --help' for all commands.")
            }
            command = next
            path += " " + word
        }
    }
}

extension ParsableArguments {
    /// What an option is and takes, where a value was refused; else empty.
    static func helpLine(for error: any Error) -> String {
        fullMessage(for: error).split(separator: "\n").first { $0.hasPrefix("Help: ") }
            .map { String($0) } ?? ""
    }
}

/// A command that reports errors in the common way: on standard error, with exit code 1.
protocol ReportingCommand: AsyncParsableCommand {
    var output: OutputOptions { get }
    func perform() async throws
}

extension ReportingCommand {
    func run() async throws {
        do {
            try await perform()
        } catch let code as ExitCode {
            throw code
        } catch let error as ValidationError {
            throw error
        } catch let misuse as Misuse {
            throw misuse
        } catch {
            Terminal.printError(FailureReport(error).text(asJSON: output.json))
            throw ExitCode.failure
        }
    }
}

/// The option for the form of results.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON instead of text for people.")
    var json = false
}
