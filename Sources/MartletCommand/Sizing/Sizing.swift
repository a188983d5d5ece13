// SPDX-License-Identifier: Apache-2.0
//
// Memory, disk and cores for an expected load (OPS-10). Where the load leaves a choice open, the worse case counts:
// deliveries leave alone, and recipients lie scattered over all instances. The article Operating, "Sizing", has the
// formulas. Rests on ExpectedLoad and SizingFigures.

import Glibc
import Martlet

/// The needs of a load.
package struct Sizing: Sendable, Encodable {
    /// Bytes of memory.
    package struct Memory: Sendable, Encodable {
        /// The process without connections, with the queues of a flood.
        package var broker: UInt64
        package var connections: UInt64
        /// The broker's ends of all sockets, in the kernel.
        package var kernel: UInt64
        /// data.mdb in the page cache, so that no read waits for the disk.
        package var pageCache: UInt64
        package var total: UInt64
    }

    /// Bytes of disk.
    package struct Disk: Sendable, Encodable {
        package var instances: UInt64
        package var messages: UInt64
        package var reports: UInt64
        /// The journal, and the parts of data.mdb without rows.
        package var fixed: UInt64
        /// Room of an upgrade that migrates the folder, beside all other parts.
        package var migration: UInt64
        package var total: UInt64

        /// The rows in data.mdb.
        package var content: UInt64 { instances + messages + reports }
    }

    /// Cores in use at the peak.
    package struct Cores: Sendable, Encodable {
        package var deliveries: Double
        package var acceptance: Double
        package var connecting: Double
        /// Cores of the machine, which are half busy at the peak.
        package var total: Int
    }

    /// Rates a second.
    package struct Peak: Sendable, Encodable {
        package var messages: Double
        package var deliveries: Double
        package var syncedWrites: Double
        package var bytesWritten: UInt64
    }

    package var memory: Memory
    package var disk: Disk
    package var cores: Cores
    package var peak: Peak
    /// Loops of the broker (`--loops`).
    package var loops: Int
    /// Seconds until a message to all connections has left, on all cores.
    package var secondsToAll: Double
    /// Seconds until all connections are back after a restart, on all cores.
    package var secondsToComeBack: Double
    /// Sentences on a load that goes beyond one broker.
    package var remarks: [String]

    private typealias Figures = SizingFigures

    package init(_ load: ExpectedLoad) {
        disk = Self.disk(load)
        memory = Self.memory(load, disk)
        peak = Self.peak(load)
        let parts = Self.busyCores(load)
        let busy = parts.deliveries + parts.acceptance + parts.connecting
        let total = max(Figures.coresMin, (busy / Figures.busyShare).rounded(.up))
        cores = Cores(
            deliveries: parts.deliveries, acceptance: parts.acceptance,
            connecting: parts.connecting, total: Int(rounding: total))
        let connections = Double(load.connections)
        loops = Int(
            rounding: max(total, (connections / Figures.connectionsPerLoop).rounded(.up)))
        secondsToAll = connections * Self.deliveryNanoseconds(load) / 1e9 / total
        secondsToComeBack = connections * Self.connectNanoseconds(load) / 1e9 / total
        remarks = []
        if peak.messages * load.storedShare > Figures.storedMessagesMax {
            remarks.append(
                "The peak is more than the \(Quantity.short(Figures.storedMessagesMax)) stored messages "
                    + "a second that one broker was measured with.")
        }
        if load.instances > Limits.instancesPerProjectMax {
            remarks.append(
                "A project has at most \(Quantity.short(Double(Limits.instancesPerProjectMax))) "
                    + "instances, unless the limit instances-per-project-max is raised.")
        }
    }

    // MARK: Disk

    private static func disk(_ load: ExpectedLoad) -> Disk {
        let instances = Double(load.instances)
        let topics = Double(load.topicsPerInstance)
        let topicBytes =
            topics > 0 ? Figures.topicListBytes + topics * Figures.subscriptionBytes : 0
        let instanceBytes = instances * (Figures.instanceBytes + topicBytes)
        let messageBytes = load.kinds.reduce(0) { $0 + Self.messageBytes($1, load) }
        let accepted = load.kinds.reduce(0) { $0 + $1.perDay } * load.storedShare
        let reportDays = Double(Limits.reportSeconds) / Figures.secondsPerDay
        let reports = min(accepted * reportDays, Double(Limits.reportsPerProjectMax))
        let reportBytes = reports * Figures.reportBytes
        let fixed = Figures.journalBytes + Figures.reserveBytes + Figures.freedBytes
        let files = instanceBytes + messageBytes + reportBytes + fixed
        let migration = files * Figures.migrationShare + Figures.migrationBytes
        return Disk(
            instances: UInt64(rounding: instanceBytes), messages: UInt64(rounding: messageBytes),
            reports: UInt64(rounding: reportBytes), fixed: UInt64(rounding: fixed),
            migration: UInt64(rounding: migration), total: UInt64(rounding: files + migration))
    }

    /// Bytes of the waiting messages of a kind. A message waits for all days if a recipient stays away, and for a day if
    /// a recipient has no connection.
    private static func messageBytes(_ kind: ExpectedLoad.Kind, _ load: ExpectedLoad) -> Double {
        let days = Double(load.daysKept)
        let day = min(days, 1)
        let storedPerDay = kind.perDay * load.storedShare
        let long = 1 - pow(1 - load.awayShare, kind.recipients)
        let some = 1 - pow(1 - load.unconnectedShare, kind.recipients)
        let waiting = storedPerDay * (long * days + (some - long) * day)
        let body =
            Figures.messageBytes
            + rowBytes(Double(load.bytesPerMessage), fields: Figures.messageFieldBytes)
        guard kind.recipients <= Figures.inboxRecipientsMax else {
            // A set of recipients goes up to a day later than its message.
            let blob = rowBytes(blobBytes(kind.recipients, of: Double(load.instances)), fields: 0)
            return waiting * body + (waiting + storedPerDay * some) * blob
        }
        let rows =
            storedPerDay * kind.recipients
            * (load.awayShare * days + (load.unconnectedShare - load.awayShare) * day)
        // STO-1: an instance has at most 100 waiting messages.
        let rowsMax =
            Double(load.instances) * load.unconnectedShare * Double(Limits.storedPerInstanceMax)
        return min(1, rowsMax / max(rows, 1)) * (waiting * body + rows * Figures.inboxRowBytes)
    }

    /// Bytes of a set of recipients that lie scattered over all instances.
    private static func blobBytes(_ recipients: Double, of instances: Double) -> Double {
        let blocks = (instances / Figures.instancesPerBlock).rounded(.up)
        let members = recipients / max(blocks, 1)
        let blockBytes =
            if recipients >= instances {
                0.0
            } else if members <= Figures.listMembersMax {
                2 * members
            } else {
                Figures.bitmapBytes
            }
        return Figures.blobHeaderBytes + blocks * (Figures.blobBlockBytes + blockBytes)
    }

    /// Bytes of a row: a part of a page, or pages of its own.
    private static func rowBytes(_ bytes: Double, fields: Double) -> Double {
        guard bytes + fields > Figures.rowOfOwnPagesBytes else { return bytes * Figures.pageFill }
        let pages = (bytes + fields + Figures.pageHeaderBytes) / Figures.pageBytes
        return pages.rounded(.up) * Figures.pageBytes
    }

    // MARK: Memory

    private static func memory(_ load: ExpectedLoad, _ disk: Disk) -> Memory {
        let each = load.isSecure ? Figures.secureConnectionBytes : Figures.connectionBytes
        let connections = Double(load.connections)
        var memory = Memory(
            broker: UInt64(rounding: Figures.processBytes + Figures.queueBytes),
            connections: UInt64(rounding: connections * each),
            kernel: UInt64(rounding: connections * Figures.socketBytes), pageCache: disk.content,
            total: 0)
        memory.total = memory.broker + memory.connections + memory.kernel + memory.pageCache
        return memory
    }

    // MARK: Rates and cores

    /// A day's number as a rate a second at the peak.
    private static func rate(_ perDay: Double, _ load: ExpectedLoad) -> Double {
        perDay * load.peakFactor / Figures.secondsPerDay
    }

    private static func peak(_ load: ExpectedLoad) -> Peak {
        let messages = rate(load.kinds.reduce(0) { $0 + $1.perDay }, load)
        let deliveries = rate(load.kinds.reduce(0) { $0 + $1.perDay * $1.recipients }, load)
        let stored = messages * load.storedShare
        // Acknowledgements share the transactions of messages where there are enough of them.
        let commits = min(stored + Figures.acknowledgementCommits, Figures.commitsMax)
        return Peak(
            messages: messages, deliveries: deliveries, syncedWrites: commits,
            bytesWritten: UInt64(
                rounding: commits * Figures.commitBytes + stored * Figures.acceptBytes))
    }

    private static func deliveryNanoseconds(_ load: ExpectedLoad) -> Double {
        Figures.deliveryNanoseconds + (load.isSecure ? Figures.sealNanoseconds : 0)
    }

    private static func connectNanoseconds(_ load: ExpectedLoad) -> Double {
        Figures.connectNanoseconds + (load.isSecure ? Figures.handshakeNanoseconds : 0)
    }

    private static func busyCores(
        _ load: ExpectedLoad
    ) -> (deliveries: Double, acceptance: Double, connecting: Double) {
        let peak = peak(load)
        let stored = peak.messages * load.storedShare
        let passed = peak.messages - stored
        let connects = rate(Double(load.connections) * Double(load.connectsPerDay), load)
        let acceptance =
            peak.syncedWrites * Figures.commitNanoseconds + stored * Figures.acceptNanoseconds
            + min(passed, Figures.turnsMax) * Figures.turnNanoseconds
            + passed * Figures.passNanoseconds
            + (load.isOverHTTP ? peak.messages * Figures.requestNanoseconds : 0)
        return (
            peak.deliveries * deliveryNanoseconds(load) / 1e9, acceptance / 1e9,
            connects * connectNanoseconds(load) / 1e9
        )
    }
}

extension FixedWidthInteger {
    /// The nearest integer: the largest for a number beyond all.
    fileprivate init(rounding value: Double) {
        self = value >= Double(Self.max) ? .max : value > 0 ? Self(value.rounded()) : 0
    }
}
