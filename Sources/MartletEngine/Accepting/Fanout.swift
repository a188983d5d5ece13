// SPDX-License-Identifier: Apache-2.0
//
// What the engine hands to the loops for a message that it has accepted. Rests on the records.

public import MartletBase
import MartletBits
package import MartletRows

/// An accepted message, for the loops to deliver to connected recipients.
package final class Fanout: Sendable {
    /// Project of the message.
    package let project: ProjectNumber
    /// What is the same for all recipients.
    package let header: MessageHeader
    /// Message in wire form.
    package let body: [UInt8]
    /// Who it is for, connected or not.
    package let recipients: Recipients
    /// The project's last sequence at acceptance; a stored message's own. If a message is now or never, sessions that were
    /// attached later don't get it (TTL-2).
    package let position: MessageSequence
    /// The project's share, relative to other projects (FAN-2).
    package let weight: Int
    /// Where loops report their progress; nil for a message to one instance (FAN-1).
    package let progress: FanoutProgress?

    /// By default the weight is 1 and loops report no progress.
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

    /// Bytes of body and recipients.
    package var byteCount: Int {
        if case .many(let set) = recipients { return body.count + set.byteCount }
        return body.count
    }
}

extension MessageSequence {
    /// Marks the number of a now-or-never message. Devices don't acknowledge such numbers (TTL-2).
    public static let nowOrNeverBit: UInt64 = 1 << 63

    /// Whether the sequence belongs to a stored message (TTL-2).
    @inlinable public var isStored: Bool { rawValue & Self.nowOrNeverBit == 0 }
}
