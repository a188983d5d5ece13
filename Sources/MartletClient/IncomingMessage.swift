// SPDX-License-Identifier: Apache-2.0
//
// What an application on a device gets, and the credentials it gets it with.

public import MartletBase
public import MartletWire

/// A message as the application sees it.
public struct IncomingMessage: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`, as the sender was told.
    public var messageID: String
    /// Its place in the project's order.
    public var streamID: UInt64
    /// Whether the broker keeps it until it is acknowledged.
    public var isStored: Bool
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String
    public var targetKind: TargetKind
    public var priority: MessagePriority
    /// When the broker accepted it.
    public var accepted: Instant
    /// When it ceases to be of interest.
    public var expires: Instant
    public var notification: Message.Notification?
    public var data: [Message.DataEntry]

    init(_ deliver: Deliver, projectID: String) throws(WireError) {
        let message = try Message(decoding: deliver.message, unknownTags: .skip)
        messageID = "projects/\(projectID)/messages/\(deliver.messageNumber)"
        streamID = deliver.messageNumber
        isStored = deliver.isStored
        from = deliver.from
        targetKind = deliver.kind
        priority = deliver.priority
        accepted = deliver.accepted
        expires = deliver.expires
        notification = message.notification
        data = message.data
    }

    /// The value of a data key.
    public subscript(key: String) -> String? {
        data.first { $0.key == key }?.value
    }
}

/// What addresses an instance and what proves that one is it. Keep the key secret.
public struct DeviceCredentials: Sendable, Hashable, Codable, CustomStringConvertible {
    public var projectID: String
    /// Addresses the instance. May be told to senders.
    public var token: String
    /// Proves to be the instance. Never leaves the device.
    public var deviceKey: String

    public init(projectID: String, token: String, deviceKey: String) {
        self.projectID = projectID
        self.token = token
        self.deviceKey = deviceKey
    }

    /// Names the project only: descriptions end up in logs.
    public var description: String { "DeviceCredentials(project \(projectID))" }
}
