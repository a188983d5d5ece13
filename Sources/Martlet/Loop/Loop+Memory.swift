// SPDX-License-Identifier: Apache-2.0
//
// Memory held for peers: unanswered requests, and frames that peers do not read (OPS-5). Rests on RequestMemory
// and on the measurements of Delivery.

import Logging
import MartletBase
import MartletDelivery
import MartletEngine
import MartletThreads
import MartletTransport
import Synchronization

extension Loop where Kernel: ~Copyable {
    // MARK: Unanswered requests

    /// Counts the current request as outstanding.
    /// - Throws: the refusal, if the memory for requests is full.
    mutating func charge(
        _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> RequestCharge {
        let charge = RequestCharge(
            payer: payer(connection),
            byteCount: memory.servedBytes + Connection.requestOverheadBytes)
        try take(charge)
        connection.pointee.outstanding += 1
        connection.pointee.requestBytes += UInt32(charge.byteCount)
        if connection.pointee.isApp {
            let carrier = carrier(of: connection)
            carrier.pointee.outstanding += 1
            carrier.pointee.requestBytes += UInt32(charge.byteCount)
        }
        return charge
    }

    /// Notes the end of a request.
    /// - Returns: the asking connection; nil: the connection is gone.
    func settled(
        _ id: ConnectionID, _ charge: RequestCharge
    ) -> UnsafeMutablePointer<Connection>? {
        context.requestMemory.giveBack(charge)
        guard let connection = connection(id) else { return nil }
        connection.pointee.outstanding -= 1
        connection.pointee.requestBytes -= UInt32(charge.byteCount)
        if connection.pointee.isApp {
            let carrier = carrier(of: connection)
            carrier.pointee.outstanding -= 1
            carrier.pointee.requestBytes -= UInt32(charge.byteCount)
        }
        return connection
    }

    /// Charges the kept bytes of unfinished and waiting frames. A connection without room for the bytes ends.
    mutating func chargeUnfinished(_ connection: UnsafeMutablePointer<Connection>) {
        if !connection.pointee.phase.isAlive { connection.pointee.dropUnread() }
        let kept = keptBytes(connection)
        let before = connection.pointee.unfinished
        guard kept != before.byteCount || kept > 0 else { return }
        let charge = RequestCharge(payer: payer(connection), byteCount: kept)
        guard kept != before.byteCount || charge.payer != before.payer else { return }
        context.requestMemory.giveBack(before)
        connection.pointee.unfinished = .nothing
        do throws(MartletError) {
            try take(charge)
            connection.pointee.unfinished = charge
        } catch {
            fail(connection, error)
            connection.pointee.dropUnread()
        }
    }

    /// Bytes of unfinished and waiting frames. For an unfinished frame the state beside the connection counts too,
    /// so a frame of a single byte is not free.
    private func keptBytes(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        let bytes =
            connection.pointee.splitter.keptBytes + connection.pointee.backlogBytes
            + transport.keptBytes(of: connection.pointee.id)
        let isKept = bytes > 0 || connection.pointee.splitter.isInsideFrame
        return isKept ? bytes + Connection.requestOverheadBytes : 0
    }

    /// Charges the payer. If strangers hold too much, the connections of the address that holds most end.
    private func take(_ charge: RequestCharge) throws(MartletError) {
        if let largest = try context.requestMemory.take(charge) { tellAll(.endStrangers(largest)) }
    }

    /// Tells every loop, this one too.
    private func tellAll(_ message: LoopMessage) {
        for loop in context.peers.all {
            if case .taken(mustWake: true) = loop.inbox.push([message]) { loop.waker.wake() }
        }
    }

    // MARK: After a burst

    /// Fewest connections and apps that come or go in a burst. After the burst the loop gives memory back:
    /// receive buffers, frames, commands, and the pages that the allocator keeps for the next burst.
    static var burstPlacesMin: UInt32 { 256 }
    /// Milliseconds without a change after which a burst is over.
    static var burstRestMilliseconds: Int { 100 }
    /// Events with bytes after which receive buffers are given back, if fewer than `quietReceivesMax` events
    /// came in the last second. Idle connections say PING now and then, and the kernel takes another buffer for
    /// each PING.
    static var receivesToRelease: UInt32 { 512 }
    static var quietReceivesMax: UInt32 { 128 }

    /// Whether a burst has left memory behind.
    var hasBurst: Bool { places.changed &- memory.release.places >= Self.burstPlacesMin }
    var hasSpareBuffers: Bool { memory.release.hasSpareBuffers }

    /// Gives memory back after a burst, and spare receive buffers. Called when the transport has no event.
    mutating func releaseMemory() {
        if memory.release.hasSpareBuffers {
            memory.release.hasSpareBuffers = false
            transport.releaseMemory()
        }
        guard hasBurst else { return }
        let now = context.monotonic()
        if places.changed != memory.release.placesBefore {
            memory.release.placesBefore = places.changed
            memory.release.changed = now
        }
        guard now - memory.release.changed >= Self.burstRestMilliseconds else { return }
        memory.release.places = places.changed
        memory.release.receives = memory.receivedCount
        transport.releaseMemory()
        delivery.releaseMemory()
        strangers.releaseMemory()
        ProcessMemory.release()
    }

    /// Checks once a second whether receive buffers were used by idle connections alone.
    mutating func countReceives() {
        let inSecond = memory.receivedCount &- memory.release.receivesBefore
        memory.release.receivesBefore = memory.receivedCount
        guard inSecond < Self.quietReceivesMax,
            memory.receivedCount &- memory.release.receives >= Self.receivesToRelease
        else { return }
        memory.release.receives = memory.receivedCount
        memory.release.hasSpareBuffers = true
    }

    // MARK: Unread frames

    /// Whether the memory for unsent frames may grow.
    var hasRoomForFrames: Bool {
        delivery.frameBytes + transport.heldBytes < limits.frames.totalMax
    }

    var needsMeasuring: Bool {
        let bytes = delivery.frameBytes
        return bytes > limits.frames.perProjectMax
            && bytes - memory.measuredFrameBytes >= limits.frames.step
    }

    /// Measures the memory of each project's frames. `freeFrames` measures every second, too.
    /// - Returns: the projects above their bound.
    mutating func measureFrames() -> [ProjectNumber] {
        memory.measuredFrameBytes = delivery.frameBytes
        delivery.beginMeasuring()
        for index in places.taken { delivery.measure(index) }
        return delivery.endMeasuring(limits.frames)
    }

    /// Disconnects stuck readers of projects above the bound, to free frames. If all projects together are
    /// above the bound, stuck readers of the largest project are disconnected, too.
    mutating func freeFrames(_ now: UInt32) {
        var crowded = measureFrames()
        let loads = delivery.projectLoads
        context.metrics.projects.withLock { $0 = loads }
        if !hasRoomForFrames, let largest = delivery.largestHolder, !crowded.contains(largest) {
            crowded.append(largest)
        }
        for project in crowded { closeStuck(of: project, now) }
    }

    /// Closes all connections of a project that are stuck for `stuckSecondsMax`, or else the connection stuck
    /// longest.
    private mutating func closeStuck(of project: ProjectNumber, _ now: UInt32) {
        var oldest: UnsafeMutablePointer<Connection>?
        var closedCount = 0
        for index in places.taken
        where isStuck(places[index]) && delivery.project(of: index) == project
            && places[index].pointee.phase != .closed
        {
            let connection = places[index]
            if now &- connection.pointee.sendBegan >= Connection.stuckSecondsMax {
                closedCount += 1
                close(connection)
            } else if oldest.map({ connection.pointee.sendBegan < $0.pointee.sendBegan }) ?? true {
                oldest = connection
            }
        }
        if closedCount == 0, let oldest {
            closedCount = 1
            close(oldest)
        }
        guard closedCount > 0 else { return }
        context.logger.warning(
            "readers that stopped were disconnected to free memory",
            metadata: ["project": "\(project.rawValue)", "connections": "\(closedCount)"])
    }
}

/// What the loop counts to know when memory is to be measured, or given back.
struct LoopMemory {
    /// Bytes of the frame in service.
    var servedBytes = 0
    /// Bytes of all frames at the last measurement of each project's frames.
    var measuredFrameBytes = 0
    /// Events with bytes. The count wraps.
    var receivedCount: UInt32 = 0
    var release = ReleaseState()
}

/// The state in which memory was last given back.
struct ReleaseState {
    /// `changed` of the places and `receivedCount` when memory was last given back.
    var places: UInt32 = 0
    var receives: UInt32 = 0
    /// `changed` of the places at the last check for a burst, and the time of its last change in
    /// milliseconds of the monotonic clock.
    var placesBefore: UInt32 = 0
    var changed: Int64 = 0
    /// `receivedCount` at the last tick.
    var receivesBefore: UInt32 = 0
    var hasSpareBuffers = false
}

/// OPS-11: the limits that a loop uses itself, taken once a second if they have changed.
struct LoopLimits {
    /// Bounds of the loop's frames.
    private(set) var frames: FrameBounds
    private(set) var fanoutsInProgressMax: Int
    /// Changes of the limits up to the copy.
    private var changeCount: UInt64 = 0

    init(_ limits: BrokerLimits, loopCount: Int) {
        frames = FrameBounds(limits, loopCount: loopCount)
        fanoutsInProgressMax = limits.fanoutsInProgressMax
    }

    mutating func take(_ inForce: LimitsInForce, loopCount: Int) {
        let count = inForce.changeCount
        guard count != changeCount else { return }
        self = LoopLimits(inForce.value, loopCount: loopCount)
        changeCount = count
    }
}
