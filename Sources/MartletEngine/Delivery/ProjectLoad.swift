// SPDX-License-Identifier: Apache-2.0
//
// What one loop has to do for each project, for whoever looks on. Rests on ProjectTable.

public import MartletBase
import MartletBits

/// One project on one loop.
public struct ProjectLoad: Sendable {
    public var project: ProjectNumber
    public var connectionCount: Int
    /// Messages that its fanouts brought to connections since the loop began.
    public var deliveredCount: UInt64
}

extension Delivery {
    /// One of each project that somebody was connected for.
    public var projectLoads: [ProjectLoad] {
        var loads: [ProjectLoad] = []
        projects.forEach { project in
            loads.append(
                ProjectLoad(
                    project: project.pointee.number,
                    connectionCount: project.pointee.connected.count,
                    deliveredCount: project.pointee.delivered))
        }
        return loads
    }
}
