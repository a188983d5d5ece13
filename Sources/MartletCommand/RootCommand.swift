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

    package static let configuration = CommandConfiguration(
        commandName: "martlet",
        abstract: "A push-messaging broker: tokens, topics, conditions.",
        discussion: """
            Commands that look after projects and keys work on a data folder: through the broker that \
            serves it, or on the folder itself when none does.

            Environment:
              MARTLET_DATA   the data folder, where --data is not given
              MARTLET_KEY    a server key, where --key is not given
              MARTLET_…      whatever serve and gateway take: MARTLET_LOG_LEVEL for --log-level

            Exit codes:
              0    done
              1    refused or failed; the reason is on standard error
              64   the command line is wrong
              130  ended by a second signal before the work was finished

            With --json, results are JSON on standard output, and a refusal is one JSON object on \
            standard error.
            """,
        version: "0.1.0",
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

extension RootCommand {
    /// Runs a program's commands. The settings of file and environment for `serve` and `gateway` go in front of the
    /// typed arguments.
    /// - Parameter parts: the parts that not every program has.
    package static func run(with parts: ProgramParts) -> Never {
        do throws(MartletError) { try ProcessStart.prepare() } catch {
            Terminal.printError("martlet: \(error)")
            Glibc.exit(1)
        }
        Interrupt.prepareAll()
        ProgramParts.install(parts)
        Task {
            let code = await run()
            guard code == EXIT_SUCCESS, let reason = Terminal.lostOutput else { Glibc.exit(code) }
            Terminal.printError("martlet: \(Terminal.unprinted(reason))")
            Glibc.exit(EXIT_FAILURE)
        }
        dispatchMain()
    }

    /// Runs the command that was typed. ArgumentParser's own `main` does not see that its texts could not be printed.
    /// - Returns: the exit code.
    private static func run() async -> Int32 {
        do {
            var arguments = try Settings.expanded(Array(CommandLine.arguments.dropFirst()))
            if let first = arguments.first, !first.hasPrefix("-"), !isCommand(first) {
                // With a flag for help, ArgumentParser would explain `martlet` and name no fault.
                arguments.removeAll { ["-h", "--help"].contains($0) }
            }
            var command = try await asyncParseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return EXIT_SUCCESS
        } catch let fault as Settings.Fault {
            Terminal.printError("\(fault)")
            return ExitCode.validationFailure.rawValue
        } catch {
            let code = exitCode(for: error)
            let text = fullMessage(for: error)
            if !text.isEmpty {
                if code.isSuccess { Terminal.print(text) } else { Terminal.printError(text) }
            }
            return code.rawValue
        }
    }
}

extension RootCommand {
    private static func isCommand(_ name: String) -> Bool {
        name == "help" || configuration.subcommands.contains { $0._commandName == name }
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
