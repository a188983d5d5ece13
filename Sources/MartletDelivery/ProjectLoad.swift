// SPDX-License-Identifier: Apache-2.0
//
// Each project's load on a loop, for the broker's metrics. Rests on ProjectTable.

package import MartletBase
import MartletBits
import MartletEngine

/// A project's load on a loop, or on several after `add`.
package struct ProjectLoad: Sendable {
    /// Project of the load.
    package var project: ProjectNumber
    /// Connected instances.
    package var connectionCount = 0
    /// Connections since the loop began, including those of instances that were connected already (EMB-3).
    package var connectedTotal: UInt64 = 0
    /// Messages that fanouts have queued for it since the loop began.
    package var deliveredCount: UInt64 = 0
    /// Bytes of the chunks that its connections held at the last measurement.
    package var frameBytes = 0

    /// No load.
    package init(_ project: ProjectNumber) { self.project = project }

    /// Adds the project's load on another loop.
    package mutating func add(_ other: ProjectLoad) {
        connectionCount += other.connectionCount
        connectedTotal += other.connectedTotal
        deliveredCount += other.deliveredCount
        frameBytes += other.frameBytes
    }
}

extension Delivery {
    /// The loads of all projects that have had a connection or a fanout here.
    package var projectLoads: [ProjectLoad] {
        var loads: [ProjectLoad] = []
        projects.forEach { project in
            var load = ProjectLoad(project.pointee.number)
            load.connectionCount =
                project.pointee.connected.count - project.pointee.bridged.count
            load.connectedTotal = project.pointee.connectedTotal
            load.deliveredCount = project.pointee.delivered
            load.frameBytes = project.pointee.frameBytes
            loads.append(load)
        }
        return loads
    }
}
