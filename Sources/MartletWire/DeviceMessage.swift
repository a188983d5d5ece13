// SPDX-License-Identifier: Apache-2.0
//
// A message of a device to the senders of its project (UPS-1), as a sender gets it. Rests on `Message`.

public import MartletBase

/// A message of a device to its project (UPS-1).
public struct DeviceMessage: Sendable, Hashable {
    /// Number among the messages of the project's devices. A message that comes twice keeps its number.
    public var number: UInt64
    /// The last known token of the sending instance.
    public var token: String
    /// The device's app: package name or bundle ID.
    public var app: String
    /// Message ID chosen by the device.
    public var messageID: String
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// Instant at which the time to live ends; equal to `accepted` for a message that is now or never.
    public var expires: Instant
    /// Data of the message, with distinct keys. A message of a device has no other contents.
    public var data: [Message.DataEntry]

    /// Makes a message of a delivery.
    /// - Throws: `WireError` if the delivery holds no message.
    package init(_ delivery: UpstreamDelivery) throws(WireError) {
        number = delivery.number
        token = delivery.token
        app = delivery.appName
        messageID = delivery.messageID
        accepted = delivery.accepted
        expires = delivery.expires
        data = try Message(decoding: delivery.message, unknownTags: .skip).data
    }

    /// The value of a data key; nil if the message does not have the key.
    public subscript(key: String) -> String? { data.value(of: key) }
}
