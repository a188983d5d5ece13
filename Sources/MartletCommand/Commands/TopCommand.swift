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

private struct StatusAnswer: Encodable, Sendable {
    struct Project: Encodable, Sendable {
        var project: String
        var weight: Int
        var connections: UInt64
        var delivered: UInt64
        var deliveriesPerSecond: Double
        var fanoutsInProgress: Int
        var fanoutsDeferred: Int
        var fanoutBytes: UInt64
        var frameBytes: UInt64
        var requestBytes: UInt64
        var share: Double
    }

    /// Milliseconds since 1970, by the broker's clock.
    var now: Int64
    var connections: UInt64
    var delivered: UInt64
    var deliveriesPerSecond: Double
    var acknowledged: UInt64
    var fellBehind: UInt64
    var commandsWaiting: UInt64
    var frameBytes: UInt64
    var requestBytes: UInt64
    var storeBytes: UInt64
    /// nil: the figure is not known.
    var allocatedBytes: UInt64?
    var projects: [Project]

    /// The answer with rates of delivery since an earlier answer, by the broker's clock.
    func after(_ earlier: StatusAnswer) -> StatusAnswer {
        let seconds = Double(max(now - earlier.now, 1)) / 1000
        func rate(_ value: UInt64, _ before: UInt64) -> Double {
            value > before ? Double(value - before) / seconds : 0
        }
        var result = self
        result.deliveriesPerSecond = rate(delivered, earlier.delivered)
        let before = Dictionary(
            earlier.projects.map { ($0.project, $0.delivered) }, uniquingKeysWith: { $1 })
        for index in projects.indices {
            let project = projects[index]
            result.projects[index].deliveriesPerSecond = rate(
                project.delivered, before[project.project] ?? project.delivered)
        }
        return result
    }

    /// The answer without rates of delivery: all are 0.
    init(_ status: BrokerStatus) {
        now = status.now.millisecondsSince1970
        connections = UInt64(clamping: status.connectionCount)
        delivered = status.deliveredCount
        deliveriesPerSecond = 0
        acknowledged = status.acknowledgedCount
        fellBehind = status.fellBehindCount
        commandsWaiting = UInt64(clamping: status.commandsWaiting)
        frameBytes = UInt64(clamping: status.frameBytes)
        requestBytes = UInt64(clamping: status.requestBytes)
        storeBytes = UInt64(clamping: status.storeBytesUsed)
        allocatedBytes = status.allocatedBytes.map { UInt64(clamping: $0) }
        projects = status.projects.map {
            Project(
                project: $0.project, weight: $0.weight,
                connections: UInt64(clamping: $0.connectionCount), delivered: $0.deliveredCount,
                deliveriesPerSecond: 0, fanoutsInProgress: $0.fanoutsInProgress,
                fanoutsDeferred: $0.fanoutsDeferred,
                fanoutBytes: UInt64(clamping: $0.fanoutBytes),
                frameBytes: UInt64(clamping: $0.frameBytes),
                requestBytes: UInt64(clamping: $0.requestBytes), share: $0.share)
        }
    }
}
