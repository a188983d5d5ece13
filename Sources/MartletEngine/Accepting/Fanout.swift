// SPDX-License-Identifier: Apache-2.0
//
// What the engine gives to the loops for a message that it has accepted. Rests on the records.

public import MartletBase
package import MartletRows

/// An accepted message, which the loops deliver to connected recipients.
package final class Fanout: Sendable {
    /// Project of the message.
    package let project: ProjectNumber
    /// Fields that are equal for all recipients of the fanout.
    package let header: MessageHeader
    /// Message in wire form.
    package let body: [UInt8]
    /// Instances that the fanout is for, connected or not.
    package let recipients: Recipients
    /// The project's last sequence at acceptance; for a stored message, its own sequence. TTL-2: a session that was
    /// attached at a later sequence does not get a message that is not stored.
    package let position: MessageSequence
    /// FAN-2: the weight of the project's share relative to other projects.
    package let weight: Int
    /// FAN-1: where the loops report their progress; nil for a message to one instance.
    package let progress: FanoutProgress?

    /// Makes a fanout. By default, the weight is 1 and the loops report no progress.
    package init(
        project: ProjectNumber, header: MessageHeader, body: [UInt8], recipients: Recipients,
        position: MessageSequence, weight: Int = 1, progress: FanoutProgress? = nil
    ) {
        self.project = project
        self.header = header
        self.body = body
        self.recipients = recipients
        self.position = position
        self.weight = weight
        self.progress = progress
    }
}

extension MessageSequence {
    /// TTL-2: marks the number of a message that is not stored. Devices do not acknowledge such a number.
    public static let notStoredBit: UInt64 = 1 << 63

    /// Whether the sequence belongs to a stored message (TTL-2).
    @inlinable public var isStored: Bool { rawValue & Self.notStoredBit == 0 }
}
