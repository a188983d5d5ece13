// SPDX-License-Identifier: Apache-2.0
//
// Messages and other events for an application on a device, and the device's credentials.

public import MartletBase
public import MartletWire

/// A message as the application sees it.
public struct IncomingMessage: Sendable, Hashable {
    /// Message ID as the sender knows it: `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// Stream ID without bit 63. For a stored message: the place in the project's order.
    public var streamID: UInt64
    /// True if the broker keeps the message until the device acknowledges.
    public var isStored: Bool
    /// `/topics/NAME` for a message to a topic, the notification key for a message from a member of a group, else
    /// the sender ID in decimal.
    public var from: String
    /// Kind of the target to which the message was sent.
    public var targetKind: TargetKind
    /// Priority of the message.
    public var priority: MessagePriority
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// Instant at which the message's time to live ends.
    public var expires: Instant
    /// RCP-1: true if the sender asked for receipts; see `MartletDevice.displayed(_:)`.
    public var wantsReceipts: Bool
    /// Title, body and image for the user; nil if the message has none of the three.
    public var notification: Message.Notification?
    /// Data for the application, in the sender's order, with distinct keys.
    public var data: [Message.DataEntry]
    /// MSG-11: content that the broker did not look into; nil if the message is not opaque.
    public var opaque: [UInt8]?
    /// MSG-5: the platform's options that are not texts, such as `icon` or `link`.
    public var options: [Message.DataEntry]
    /// MSG-5: contents for Apple's platforms only; see `apns`.
    public var applePayload: Message.ApplePayload

    init(_ deliver: Deliver, projectID: String) throws(WireError) {
        let message = try Message(decoding: deliver.message, unknownTags: .skip)
        messageID = "projects/\(projectID)/messages/\(deliver.messageNumber)"
        streamID = deliver.streamID & ~WireVersion.nowOrNeverBit
        isStored = deliver.isStored
        from = deliver.from
        targetKind = deliver.kind
        priority = deliver.priority
        accepted = deliver.accepted
        expires = deliver.expires
        wantsReceipts = deliver.options.wantsReceipts
        notification = message.notification
        data = message.data
        opaque = message.opaque
        options = message.options
        applePayload = message.applePayload
    }

    /// The value of a data key; nil if the key is absent.
    public subscript(key: String) -> String? { data.value(of: key) }

    /// MSG-5: the dictionary that an Apple application expects: `aps` with the notification, and beside `aps` the
    /// data and the sender's custom keys. A custom value that is not JSON is left out; the broker accepts only JSON
    /// there.
    public var apns: JSONValue {
        Message.appleDictionary(notification, data, applePayload)
    }
}

/// STO-1, STO-2: the broker discarded stored messages, because too many were stored or because the device had not
/// connected for too long. An application that keeps in step with a server should ask the server anew.
public struct DeletedMessages: Sendable, Hashable {
    /// Discarded messages.
    public var count: UInt64
    /// Stream ID of the last discarded message, or a stream ID without a message.
    public var streamID: UInt64
}

/// An event for the application.
public enum DeviceEvent: Sendable, Hashable {
    /// A message to the device.
    case message(IncomingMessage)
    /// A notice that the broker discarded stored messages.
    case deleted(DeletedMessages)

    /// Stream ID to acknowledge; nil if the event needs no acknowledgement.
    var acknowledgedID: UInt64? {
        switch self {
        case .message(let message): message.isStored ? message.streamID : nil
        case .deleted(let deleted): deleted.streamID
        }
    }
}

/// Credentials of an instance. The token addresses the instance, and the secret device key proves its identity.
public struct DeviceCredentials: Sendable, Hashable, Codable, CustomStringConvertible {
    /// ID of the instance's project.
    public var projectID: String
    /// Addresses the instance. Senders may know the token.
    public var token: String
    /// Proves the instance's identity. The key goes only to the broker.
    public var deviceKey: String

    /// Joins the parts of credentials: as the application has kept them, or as `Broker.register(app:platform:in:)`
    /// returned them.
    public init(projectID: String, token: String, deviceKey: String) {
        self.projectID = projectID
        self.token = token
        self.deviceKey = deviceKey
    }

    /// A text with the project ID only, because descriptions end up in logs.
    public var description: String { "DeviceCredentials(project \(projectID))" }
}
