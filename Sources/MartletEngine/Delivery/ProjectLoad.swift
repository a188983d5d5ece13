// SPDX-License-Identifier: Apache-2.0
//
// What one loop has to do for each project, for whoever looks on. Rests on ProjectTable.

public import MartletBase
import MartletBits

/// One project on one loop.
public struct ProjectLoad: Sendable {
    public var project: ProjectNumber
    public var connectionCount = 0
    /// Messages that its fanouts brought to connections since the loop began.
    public var deliveredCount: UInt64 = 0
    /// Frames that wait to be sent to its connections.
    public var frameBytes = 0

    public init(_ project: ProjectNumber) { self.project = project }

    /// What another loop has to do for it.
    public mutating func add(_ other: ProjectLoad) {
        connectionCount += other.connectionCount
        deliveredCount += other.deliveredCount
        frameBytes += other.frameBytes
    }
}

extension Delivery {
    /// One of each project that somebody was connected for.
    public var projectLoads: [ProjectLoad] {
        var loads: [ProjectLoad] = []
        projects.forEach { project in
            var load = ProjectLoad(project.pointee.number)
            load.connectionCount = project.pointee.connected.count
            load.deliveredCount = project.pointee.delivered
            load.frameBytes = project.pointee.frameBytes
            loads.append(load)
        }
        return loads
    }
}
