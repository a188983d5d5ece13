// SPDX-License-Identifier: Apache-2.0
//
// Memory that peers make the loop hold: what they have asked, and what they do not read (OPS-5). Rests
// on RequestMemory and on what Delivery measures.

import Logging
import MartletBase
import MartletEngine
import MartletRing
import Synchronization

extension Loop where Kernel: ~Copyable {
    // MARK: What was asked

    /// Counts the request that is being served as outstanding, or refuses it.
    mutating func charge(
        _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> RequestCharge {
        let charge = RequestCharge(
            project: connection.pointee.principal.project,
            byteCount: servedBytes + Connection.requestOverheadBytes)
        try context.requestMemory.take(charge)
        connection.pointee.outstanding += 1
        connection.pointee.requestBytes += UInt32(charge.byteCount)
        if connection.pointee.isApp {
            let carrier = carrier(of: connection)
            carrier.pointee.outstanding += 1
            carrier.pointee.requestBytes += UInt32(charge.byteCount)
        }
        return charge
    }

    /// A request is dealt with.
    /// - Returns: who asked, unless it is gone.
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

    /// What is kept of frames that have not been taken is counted too; where there is no room for it
    /// the connection ends.
    mutating func chargeUnfinished(_ connection: UnsafeMutablePointer<Connection>) {
        let kept = connection.pointee.splitter.keptBytes + connection.pointee.backlogBytes
        let before = connection.pointee.unfinished
        guard kept != before.byteCount else { return }
        context.requestMemory.giveBack(before)
        let charge = RequestCharge(
            project: connection.pointee.principal.project, byteCount: kept)
        do throws(MartletError) {
            try context.requestMemory.take(charge)
            connection.pointee.unfinished = charge
        } catch {
            connection.pointee.unfinished = .nothing
            fail(connection, error)
        }
    }

    // MARK: What is left behind

    /// Connections and apps that come or go, past which memory is given back when no more do. A burst
    /// leaves behind what it needed at its height: receive buffers, frames, commands, and the pages that
    /// the allocator keeps for the next one.
    static var burstPlacesMin: UInt32 { 256 }
    /// How long none may have come or gone.
    static var burstRestMilliseconds: Int { 100 }
    /// Receive buffers are given back by themselves after so many events with bytes, if fewer than
    /// `quietReceivesMax` came in the last second: idle connections say PING now and then, and the kernel
    /// takes another buffer for each.
    static var receivesToRelease: UInt32 { 512 }
    static var quietReceivesMax: UInt32 { 128 }

    /// Whether a burst of connections is to be cleaned up after.
    var hasBurst: Bool { placesChanged &- release.places >= Self.burstPlacesMin }
    var hasSpareBuffers: Bool { release.hasSpareBuffers }

    /// Called when the transport has no event, and one of both is so.
    mutating func releaseMemory() {
        if release.hasSpareBuffers {
            release.hasSpareBuffers = false
            transport.releaseMemory()
        }
        guard hasBurst else { return }
        let now = context.monotonic()
        if placesChanged != release.placesBefore {
            release.placesBefore = placesChanged
            release.changed = now
        }
        guard now - release.changed >= Self.burstRestMilliseconds else { return }
        release.places = placesChanged
        release.receives = receivedCount
        transport.releaseMemory()
        delivery.releaseMemory()
        ProcessMemory.release()
    }

    /// Once a second: whether idle connections have used the receive buffers, and nobody else has.
    mutating func countReceives() {
        let inSecond = receivedCount &- release.receivesBefore
        release.receivesBefore = receivedCount
        guard inSecond < Self.quietReceivesMax,
            receivedCount &- release.receives >= Self.receivesToRelease
        else { return }
        release.receives = receivedCount
        release.hasSpareBuffers = true
    }

    // MARK: What is not read

    /// Whether what waits to be sent may grow.
    var hasRoomForFrames: Bool { delivery.frameBytes < context.frameBounds.totalMax }

    var needsMeasuring: Bool {
        let bytes = delivery.frameBytes
        return bytes > context.frameBounds.perProjectMax
            && bytes - measuredFrameBytes >= context.frameBounds.step
    }

    /// Finds out whose the frames are. Within a second it is done again anyway.
    /// - Returns: the projects that hold more than they may.
    mutating func measureFrames() -> [ProjectNumber] {
        measuredFrameBytes = delivery.frameBytes
        delivery.beginMeasuring()
        if highestIndex >= 0 {
            for index in 0...highestIndex where isOccupied[index] {
                delivery.measure(UInt32(index))
            }
        }
        return delivery.endMeasuring(context.frameBounds)
    }

    /// Frees the frames that readers who stopped hold on to, where their project holds too many, or
    /// where all have too many and it holds most.
    mutating func freeFrames(_ now: UInt32) {
        var crowded = measureFrames()
        let loads = delivery.projectLoads
        context.metrics.projects.withLock { $0 = loads }
        if !hasRoomForFrames, let largest = delivery.largestHolder, !crowded.contains(largest) {
            crowded.append(largest)
        }
        for project in crowded { closeStuck(of: project, now) }
    }

    /// All of a project that have been stuck for long, or the one that has been longest.
    private mutating func closeStuck(of project: ProjectNumber, _ now: UInt32) {
        var oldest: UnsafeMutablePointer<Connection>?
        var closedCount = 0
        for index in 0...highestIndex
        where isOccupied[index] && isStuck(connections + index)
            && delivery.project(of: UInt32(index)) == project
            && connections[index].phase != .closed
        {
            let connection = connections + index
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

/// What memory was last given back after.
struct ReleaseState {
    /// Places that had changed by then, and events with bytes that had come.
    var places: UInt32 = 0
    var receives: UInt32 = 0
    /// Places that had changed when a burst was last looked at, and since when they are so many, in
    /// milliseconds of the monotonic clock.
    var placesBefore: UInt32 = 0
    var changed: Int64 = 0
    /// Events until the last tick.
    var receivesBefore: UInt32 = 0
    var hasSpareBuffers = false
}
