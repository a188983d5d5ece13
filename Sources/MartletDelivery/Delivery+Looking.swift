// SPDX-License-Identifier: Apache-2.0
//
// Lets an operator look at a loop's sessions (GW-9), without changing anything. Counting costs as much as a fanout: per block
// of instances. Rests on ProjectTable and DeviceSession.

package import MartletBase
package import MartletBits

/// A device's session as an operator sees it.
package struct SessionLook: Sendable, Hashable {
    /// By lane: every message up to here was queued for the device, is for others, or is gone. Not `LaneMarks`, because an
    /// asynchronous function must not hold values of that alignment.
    private var delivered: [MessageSequence]
    /// Whether messages of normal priority wait for the end of a doze (PRI-1).
    package var isDozing: Bool
    /// When the throttle's bucket is full again (COL-4).
    package var throttleFull: Instant
    /// Bytes that wait to be sent, including those with the kernel.
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
    /// How many members of a set are connected here. Sessions of the door to push services don't count.
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
