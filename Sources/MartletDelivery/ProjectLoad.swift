// SPDX-License-Identifier: Apache-2.0
//
// The load of each project on a loop, for the broker's metrics. Rests on ProjectTable.

package import MartletBase
import MartletBits
import MartletEngine

/// The load of a project on a loop, or on several loops after `add`.
package struct ProjectLoad: Sendable {
    /// Project of the load.
    package var project: ProjectNumber
    /// Connected instances.
    package var connectionCount = 0
    /// EMB-3: instances that connected since the loop began. A new connection of a connected instance counts again.
    package var connectedTotal: UInt64 = 0
    /// Messages queued by fanouts for the project's connections since the loop began.
    package var deliveredCount: UInt64 = 0
    /// Bytes of the chunks held by the project's connections at the last measurement.
    package var frameBytes = 0

    /// Makes a load of zero.
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
    /// The loads of all projects that have had a connection or a fanout on the loop.
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
