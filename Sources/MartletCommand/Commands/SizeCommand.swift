// SPDX-License-Identifier: Apache-2.0
//
// `martlet size`: the memory, the disk and the cores for an expected load (OPS-10). Asks no broker and reads no folder.
// Rests on Sizing.

import ArgumentParser
import Martlet
import MartletAnswers

struct SizeCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "size",
        abstract: "Work out the memory, disk and cores for a load.",
        discussion: """
            The figures behind the formulas were measured on two cores of an AMD EPYC with an fsync of \
            0.2 ms. The section "Sizing" of the article Operating has the formulas.

                martlet size --instances 1000000 --connections 300000 \\
                    --messages-per-day 2000000
            """)

    @Option(
        parsing: .unconditional,
        help: "Registered instances of all projects, 0 to \(Self.countMax).")
    var instances: Int

    @Option(
        parsing: .unconditional, help: "Connections at the busiest time, 0 to \(Self.countMax).")
    var connections: Int

    @Option(
        parsing: .unconditional,
        help:
            "Messages accepted in a day, without those of --fanouts-per-day, 0 to \(Self.countMax)."
    )
    var messagesPerDay: Int

    @Option(
        parsing: .unconditional,
        help: "Recipients of each of these messages, 0 to \(Self.countMax).")
    var recipients = 1

    @Option(
        parsing: .unconditional, help: "Further messages in a day, to many, 0 to \(Self.countMax).")
    var fanoutsPerDay = 0

    @Option(
        parsing: .unconditional,
        help:
            "Recipients of each of --fanouts-per-day, 0 to \(Self.countMax). Default: all instances."
    )
    var fanoutRecipients: Int?

    @Option(
        parsing: .unconditional,
        help: "Topics that an instance is subscribed to, 0 to \(Limits.topicsPerInstanceMax).")
    var topicsPerInstance = 5

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Part of the instances that stay away for all of --days, 0 to 1.",
            discussion: "All others connect at least once a day."))
    var away = 0.1

    @Option(
        parsing: .unconditional,
        help: "Part of the messages that are stored: those with a time to live above 0. 0 to 1.")
    var stored = 1.0

    @Option(parsing: .unconditional, help: "Payload of a message, in bytes, 0 to \(Self.countMax).")
    var bytesPerMessage = 512

    @Option(
        parsing: .unconditional,
        help: "Days that a message waits for its recipients, 0 to \(Self.daysMax).")
    var days = 28

    @Option(
        parsing: .unconditional,
        help: "How often a day each connection ends and comes back, 0 to \(Self.countMax).")
    var connectsPerDay = 8

    @Option(
        parsing: .unconditional,
        help: "Rate at the busiest time, as a multiple of the day's average, 1 to 1000.")
    var peak = 10.0

    @Flag(inversion: .prefixedNo, help: "Whether devices connect over TLS.")
    var tls = true

    @Flag(help: "Senders use the gateway, over HTTP.")
    var http = false

    @OptionGroup var output: OutputOptions

    private static let countMax = 1_000_000_000
    private static let daysMax = Int(Limits.timeToLiveSecondsMax) / 86_400

    func validate() throws {
        let counts = [
            ("--instances", instances), ("--connections", connections),
            ("--messages-per-day", messagesPerDay), ("--recipients", recipients),
            ("--fanouts-per-day", fanoutsPerDay), ("--fanout-recipients", fanoutRecipients ?? 0),
            ("--bytes-per-message", bytesPerMessage), ("--connects-per-day", connectsPerDay),
        ]
        for (name, count) in counts where !(0...Self.countMax).contains(count) {
            throw ValidationError("\(name) takes a number from 0 to \(Self.countMax).")
        }
        guard connections <= instances else {
            throw ValidationError("--connections takes at most as many as --instances.")
        }
        guard (0...Limits.topicsPerInstanceMax).contains(topicsPerInstance) else {
            throw ValidationError(
                "--topics-per-instance takes a number from 0 to \(Limits.topicsPerInstanceMax).")
        }
        guard (0...Self.daysMax).contains(days) else {
            throw ValidationError("--days takes a number from 0 to \(Self.daysMax).")
        }
        for (name, share) in [("--away", away), ("--stored", stored)]
        where !(0...1).contains(share) {
            throw ValidationError("\(name) takes a number from 0 to 1.")
        }
        guard (1...1000).contains(peak) else {
            throw ValidationError("--peak takes a number from 1 to 1000.")
        }
    }

    func perform() async throws {
        let sizing = Sizing(load)
        if output.json { return JSON.print(sizing) }
        Terminal.print(Self.text(sizing))
    }

    private var load: ExpectedLoad {
        var load = ExpectedLoad(
            instances: instances, connections: connections, messagesPerDay: messagesPerDay)
        load.recipients = recipients
        load.fanoutsPerDay = fanoutsPerDay
        load.fanoutRecipients = fanoutRecipients
        load.topicsPerInstance = topicsPerInstance
        load.awayShare = away
        load.storedShare = stored
        load.bytesPerMessage = bytesPerMessage
        load.daysKept = days
        load.connectsPerDay = connectsPerDay
        load.peakFactor = peak
        load.isSecure = tls
        load.isOverHTTP = http
        return load
    }

    private static func text(_ sizing: Sizing) -> String {
        let (memory, disk, cores, peak) = (sizing.memory, sizing.disk, sizing.cores, sizing.peak)
        var table = Table(("NEEDED", .left), ("AMOUNT", .right), ("FOR", .left))
        func add(_ name: String, _ bytes: UInt64, _ purpose: String) {
            table.add(name, Quantity.bytes(bytes), purpose)
        }
        func add(part cores: Double, _ purpose: String) {
            table.add("", Quantity.hundredths(cores), purpose)
        }
        add("memory", memory.total, "")
        add("", memory.broker, "the process, and queues in a flood")
        add("", memory.connections, "connections")
        add("", memory.kernel, "sockets in the kernel")
        add("", memory.pageCache, "data.mdb in the page cache")
        add("disk", disk.total, "")
        add("", disk.instances, "instances and their topics")
        add("", disk.messages, "messages that wait")
        add("", disk.reports, "reports of messages")
        add("", disk.fixed, "the journal and free pages")
        add("", disk.migration, "room for an upgrade")
        table.add("cores", "\(cores.total)", "half busy at the peak; --loops \(sizing.loops)")
        add(part: cores.deliveries, "deliveries")
        add(part: cores.acceptance, "accepting messages")
        add(part: cores.connecting, "devices that connect")
        let lines = [
            "At the peak: \(Quantity.short(peak.messages)) messages/s, "
                + "\(Quantity.short(peak.deliveries)) deliveries/s, "
                + "\(Quantity.short(peak.syncedWrites)) synced writes/s with "
                + "\(Quantity.bytes(peak.bytesWritten))/s.",
            "A message to all connections leaves within \(Quantity.duration(sizing.secondsToAll)). "
                + "After a restart all devices are back within "
                + "\(Quantity.duration(sizing.secondsToComeBack)).",
        ]
        return ([table.text, ""] + lines + sizing.remarks).joined(separator: "\n")
    }
}
