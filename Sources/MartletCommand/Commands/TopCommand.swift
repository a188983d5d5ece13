// SPDX-License-Identifier: Apache-2.0
//
// `martlet top`: a running broker and its projects, live (FAN-8), with the broker's metrics (OPS-10). The counters are
// read twice; the difference gives the rate. Rests on MartletClient and StatusAnswer.

import ArgumentParser
import Martlet
import MartletAnswers
import MartletClient

struct TopCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Show what a running broker does for its projects.",
        discussion: """
            Durations, refusals and rates are those since the last look. The durations are the \
            quantiles p50 / p99 of the broker's histograms, of the transaction, of its synced write to \
            the journal, and of the first and the last delivery of messages to many.

            Any node of a cluster shows the sums of all nodes, and a line for each. Durations, refusals, \
            TLS, store and disk are those of the asked node.

            In a terminal the table is refreshed in place until Ctrl-C; elsewhere, with --once and \
            with --json it is printed once.
            """)

    @Option(parsing: .unconditional, help: "Seconds between two looks, 1 to 3600.")
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
        var before = try await Self.look(administrator)
        let isLive = Terminal.isInteractive && !once && !output.json
        let interrupt = isLive ? Interrupt.prepare() : nil
        if isLive { Screen.clear() }
        repeat {
            await Self.pause(.seconds(interval), interrupt)
            if interrupt?.hasFired == true { break }
            let now = try await Self.look(administrator)
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

    private static func look(_ administrator: MartletAdministrator) async throws -> StatusAnswer {
        let metrics = try await administrator.metrics()
        return StatusAnswer(try await administrator.status(), MetricsReading(metrics))
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
        let nodes = (status.nodes ?? []).map { node in
            "node \(node.node)\(node.isActive ? ", active" : "")   "
                + "connections \(Quantity.short(Double(node.connections)))   "
                + "deliveries/s \(Quantity.short(node.deliveriesPerSecond))   "
                + "delivered \(Quantity.short(Double(node.delivered)))   "
                + "acknowledged \(Quantity.short(Double(node.acknowledged)))"
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
                + "memory \(memory)   store \(Quantity.bytes(status.storeBytes))",
            "store \(status.storeState.text)   file \(Quantity.bytes(status.storeFileBytes))   "
                + "map \(Quantity.bytes(status.storeMapBytes))   disk "
                + "\(Quantity.bytes(status.diskBytes - min(status.diskFreeBytes, status.diskBytes))) "
                + "used, \(Quantity.bytes(status.diskFreeBytes)) free",
            "commit \(status.commit.text)   journal \(status.journalWrite.text)   "
                + "first delivery \(status.firstDelivery.text)   "
                + "last \(status.lastDelivery.text)",
            "refused: \(Self.refusals(status))   "
                + "TLS handshakes/s \(Quantity.short(status.tlsHandshakesPerSecond))   "
                + "failed \(Quantity.short(Double(status.tlsFailures)))",
        ] + Self.projectRefusals(status) + nodes + [""]
            + table.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    /// Causes of refusals that a line has room for.
    private static let causesMax = 4

    /// A line for the projects whose requests were refused; empty: none was.
    private static func projectRefusals(_ status: StatusAnswer) -> [String] {
        guard !status.projectRefusals.isEmpty else { return [] }
        let shown = status.projectRefusals.prefix(causesMax)
            .map { "\($0.project) \($0.count) \($0.cause)" }
        let rest = status.projectRefusals.dropFirst(causesMax).reduce(0) { $0 + $1.count }
        return [
            "refused to: " + (shown + (rest > 0 ? ["\(rest) others"] : [])).joined(separator: ", ")
        ]
    }

    private static func refusals(_ status: StatusAnswer) -> String {
        guard !status.refusals.isEmpty else { return "nothing" }
        let shown = status.refusals.prefix(causesMax).map { "\($0.count) \($0.cause)" }
        let rest = status.refusals.dropFirst(causesMax).reduce(0) { $0 + $1.count }
        return (shown + (rest > 0 ? ["\(rest) others"] : [])).joined(separator: ", ")
    }
}

extension StatusAnswer.Durations {
    /// `0.42 ms / 1.20 ms`: p50 and p99.
    fileprivate var text: String {
        guard let p50, let p99 else { return "-" }
        return Quantity.time(p50) + " / " + Quantity.time(p99)
    }
}

extension StatusAnswer.StoreState {
    fileprivate var text: String {
        switch self {
        case .ok: "ok"
        case .refusing: "REFUSES CHANGES"
        case .diskShort: "DISK FULL"
        }
    }
}
