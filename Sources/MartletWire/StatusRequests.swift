// SPDX-License-Identifier: Apache-2.0
//
// The present state of a broker, for the administrator. Counters begin when the broker starts; the difference of
// two answers gives a rate. Rests on `WireReader` and `WireWriter`.

public import MartletBase

extension BrokerStatus {
    init(from reader: inout WireReader) throws(WireError) {
        self.init(now: try reader.instant())
        connectionCount = try reader.size("connections")
        deliveredCount = try reader.u64()
        acknowledgedCount = try reader.u64()
        fellBehindCount = try reader.u64()
        commandsWaiting = try reader.size("commands")
        frameBytes = try reader.size("frame bytes")
        requestBytes = try reader.size("request bytes")
        storeBytesUsed = try reader.size("store bytes")
        allocatedBytes = try reader.nonzeroSize("allocated bytes")
        projects = try reader.entries()
        // A broker alone sends no list, and earlier programs do not know of the list. A single byte is left to `finish`.
        guard reader.remaining > 1 else { return }
        nodes = try reader.entries()
        guard !nodes.isEmpty else { throw .unknownValue(field: "nodes", value: 0) }
    }

    func encode(into writer: inout WireWriter) {
        writer.instant(now)
        writer.u64(UInt64(clamping: connectionCount))
        writer.u64(deliveredCount)
        writer.u64(acknowledgedCount)
        writer.u64(fellBehindCount)
        writer.u64(UInt64(clamping: commandsWaiting))
        writer.u64(UInt64(clamping: frameBytes))
        writer.u64(UInt64(clamping: requestBytes))
        writer.u64(UInt64(clamping: storeBytesUsed))
        writer.u64(UInt64(clamping: allocatedBytes ?? 0))
        writer.entries(projects)
        guard !nodes.isEmpty else { return }
        writer.entries(nodes)
    }
}

extension AdministratorInterface {
    /// FAN-8: the present state of the broker, with the load of each project.
    /// - Throws: `UNAVAILABLE` if the store cannot be read.
    public func status() async throws(Failure) -> BrokerStatus {
        try await requests.ask(StatusRequest()).status
    }
}
