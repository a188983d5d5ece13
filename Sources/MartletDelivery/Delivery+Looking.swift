// SPDX-License-Identifier: Apache-2.0
//
// A look at the sessions of a loop for an operator (GW-9). A look changes nothing. The cost of counting is per block of
// instances, as for a fanout. Rests on ProjectTable and DeviceSession.

package import MartletBase
package import MartletBits

/// A device's session as an operator sees it.
package struct SessionLook: Sendable, Hashable {
    /// By lane: each message up to the position was queued for the device, is for others, or does not exist any more.
    /// The positions are no `LaneMarks`, because an asynchronous function must not hold values of its alignment.
    private var delivered: [MessageSequence]
    /// PRI-1: whether messages of normal priority wait for the end of a doze.
    package var isDozing: Bool
    /// COL-4: the instant at which the throttle's bucket is full again.
    package var throttleFull: Instant
    /// Bytes that wait to be sent, those with the kernel included.
    package var queuedBytes: Int

    fileprivate init(
        _ marks: LaneMarks, isDozing: Bool, throttleFull: Instant, queuedBytes: Int
    ) {
        delivered = (0..<UInt8(Lane.count)).map { marks[Lane(rawValue: $0)] }
        self.isDozing = isDozing
        self.throttleFull = throttleFull
        self.queuedBytes = queuedBytes
    }

    /// The position of a lane.
    package func delivered(_ lane: Lane) -> MessageSequence { delivered[Int(lane.rawValue)] }
}

extension Delivery {
    /// The members of a set that are connected to the loop. The sessions of the door to push services do not count.
    package func connected(
        among recipients: RecipientSet, of number: ProjectNumber
    ) -> RecipientSet {
        guard let project = projects.find(number), !project.pointee.connected.isEmpty else {
            return .none
        }
        var builder = RecipientSetBuilder()
        var both = BlockBuffer()
        let view = recipients.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            guard project.pointee.connected.count(inBlock: block.block) > 0 else { continue }
            both.assign(block.view)
            project.pointee.connected.withView(ofBlock: block.block) { both.formIntersection($0) }
            if !project.pointee.bridged.isEmpty {
                project.pointee.bridged.withView(ofBlock: block.block) { both.subtract($0) }
            }
            builder.append(block: block.block, buffer: both, count: both.count)
        }
        return builder.finish()
    }

    /// The session of a device.
    /// - Parameter index: a session's number, from `session(of:in:)`.
    package func look(at index: UInt32) -> SessionLook {
        SessionLook(
            deliveredMarks(index), isDozing: devices[Int(index)].isDozing,
            throttleFull: Instant(rawValue: sessions[Int(index)].throttleFull),
            queuedBytes: queuedBytes(index))
    }
}
