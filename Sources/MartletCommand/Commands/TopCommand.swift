// SPDX-License-Identifier: Apache-2.0
//
// `martlet top`: a running broker and its projects, live (FAN-8). The counters are read twice; the difference gives
// the rate. Rests on MartletClient.

import ArgumentParser
import Martlet
import MartletClient

struct TopCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Show what a running broker does for its projects.",
        discussion: """
            In a terminal the table is refreshed in place until Ctrl-C; elsewhere, with --once and \
            with --json it is printed once.
            """)

    @Option(help: "Seconds between two looks, 1 to 3600.")
    var interval = 1

    @Flag(help: "Print the table once.")
    var once = false

    @OptionGroup var folder: FolderOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard (1...3600).contains(interval) else {
            throw ValidationError("--interval takes a number from 1 to 3600.")
        }
    }

    func perform() async throws {
        let administrator = try await folder.access.runningBroker()
        var before = StatusAnswer(try await administrator.status())
        let isLive = Terminal.isInteractive && !once && !output.json
        let interrupt = isLive ? Interrupt.prepare() : nil
        if isLive { Screen.clear() }
        repeat {
            await Self.pause(.seconds(interval), interrupt)
            if interrupt?.hasFired == true { break }
            let now = StatusAnswer(try await administrator.status())
            let shown = now.after(before)
            before = now
            if output.json {
                JSON.print(shown)
            } else if isLive {
                Screen.show(Self.lines(shown))
            } else {
                Terminal.print(Self.lines(shown).joined(separator: "\n"))
            }
        } while isLive
        await administrator.close()
    }

    /// Waits until the time is over, or a signal comes.
    private static func pause(_ duration: Duration, _ interrupt: Interrupt.Waiter?) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await Task.sleep(for: duration) }
            if let interrupt { group.addTask { await interrupt.wait() } }
            await group.next()
            group.cancelAll()
        }
    }

    private static func lines(_ status: StatusAnswer) -> [String] {
        let memory = status.allocatedBytes.map { Quantity.bytes($0) } ?? "-"
        var table = Table(
            ("PROJECT", .left), ("WEIGHT", .right), ("CONNECTED", .right), ("PER SECOND", .right),
            ("SHARE", .right), ("FANOUTS", .right), ("DEFERRED", .right), ("HELD", .right))
        for project in status.projects {
            table.add(
                project.project, "\(project.weight)",
                Quantity.short(Double(project.connections)),
                Quantity.short(project.deliveriesPerSecond), Quantity.percent(project.share),
                "\(project.fanoutsInProgress)", "\(project.fanoutsDeferred)",
                Quantity.bytes(
                    project.fanoutBytes + project.frameBytes + project.requestBytes))
        }
        return [
            "connections \(Quantity.short(Double(status.connections)))   "
                + "deliveries/s \(Quantity.short(status.deliveriesPerSecond))   "
                + "delivered \(Quantity.short(Double(status.delivered)))   "
                + "acknowledged \(Quantity.short(Double(status.acknowledged)))   "
                + "fell behind \(Quantity.short(Double(status.fellBehind)))",
            "waiting: \(status.commandsWaiting) commands, "
                + "\(Quantity.bytes(status.requestBytes)) of requests, "
                + "\(Quantity.bytes(status.frameBytes)) of frames   "
                + "memory \(memory)   store \(Quantity.bytes(status.storeBytes))", "",
        ] + table.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}
