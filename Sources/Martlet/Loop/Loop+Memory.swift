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
        connection.pointee.requestBytes += charge.byteCount
        if connection.pointee.isApp {
            let carrier = carrier(of: connection)
            carrier.pointee.outstanding += 1
            carrier.pointee.requestBytes += charge.byteCount
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
        connection.pointee.requestBytes -= charge.byteCount
        if connection.pointee.isApp {
            let carrier = carrier(of: connection)
            carrier.pointee.outstanding -= 1
            carrier.pointee.requestBytes -= charge.byteCount
        }
        return connection
    }

    /// What is kept of frames that have not been taken is counted too; where there is no room for it
    /// the connection ends.
    mutating func chargeUnfinished(_ connection: UnsafeMutablePointer<Connection>) {
        let kept = connection.pointee.splitter.keptBytes + connection.pointee.backlog.count
        guard kept != connection.pointee.unfinished.byteCount else { return }
        context.requestMemory.giveBack(connection.pointee.unfinished)
        let charge = RequestCharge(
            project: connection.pointee.principal.project, byteCount: kept)
        connection.pointee.unfinished = RequestCharge(project: nil, byteCount: 0)
        do throws(MartletError) {
            try context.requestMemory.take(charge)
            connection.pointee.unfinished = charge
        } catch {
            fail(connection, error)
        }
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
