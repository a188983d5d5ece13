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
    /// RCP-1: the sender wants to know what becomes of it: see `MartletDevice.displayed(_:)`.
    public var wantsReceipts: Bool
    public var notification: Message.Notification?
    public var data: [Message.DataEntry]
    /// MSG-5: what the sender said for this platform only and is no text, such as `icon` or `link`.
    public var options: [Message.DataEntry]
    /// MSG-5: what the sender said for Apple's platforms only; see `apns`.
    public var applePayload: Message.ApplePayload

    init(_ deliver: Deliver, projectID: String) throws(WireError) {
        let message = try Message(decoding: deliver.message, unknownTags: .skip)
        messageID = "projects/\(projectID)/messages/\(deliver.messageNumber)"
        streamID = deliver.streamID & ~WireVersion.notStoredBit
        isStored = deliver.isStored
        from = deliver.from
        targetKind = deliver.kind
        priority = deliver.priority
        accepted = deliver.accepted
        expires = deliver.expires
        wantsReceipts = deliver.wantsReceipts
        notification = message.notification
        data = message.data
        options = message.options
        applePayload = message.applePayload
    }

    /// The value of a data key.
    public subscript(key: String) -> String? {
        data.first { $0.key == key }?.value
    }

    /// MSG-5: the dictionary that an Apple application expects: `aps` with what it shows, and the data
    /// and the sender's custom keys beside it. A custom value that is not JSON is left out; the broker
    /// accepts none.
    public var apns: JSONValue {
        var aps: [String: JSONValue] = [:]
        var alert: [String: JSONValue] = [:]
        alert["title"] = notification?.title.map { .string($0) }
        alert["subtitle"] = applePayload.subtitle.map { .string($0) }
        alert["body"] = notification?.body.map { .string($0) }
        if !alert.isEmpty { aps["alert"] = .object(alert) }
        aps["badge"] = applePayload.badge.map { .integer(Int64($0)) }
        aps["sound"] = applePayload.sound.map { .string($0) }
        aps["category"] = applePayload.category.map { .string($0) }
        aps["thread-id"] = applePayload.threadID.map { .string($0) }
        if applePayload.contentAvailable { aps["content-available"] = .integer(1) }
        if applePayload.mutableContent { aps["mutable-content"] = .integer(1) }
        for entry in applePayload.aps {
            guard let value = try? JSONValue(parsing: entry.value) else { continue }
            if entry.key == "alert", case .object(let members) = value {
                aps["alert"] = .object(alert.merging(members) { text, _ in text })
            } else {
                aps[entry.key] = value
            }
        }
        var dictionary: [String: JSONValue] = [:]
        for entry in data { dictionary[entry.key] = .string(entry.value) }
        for entry in applePayload.custom {
            if let value = try? JSONValue(parsing: entry.value) { dictionary[entry.key] = value }
        }
        dictionary["aps"] = .object(aps)
        return .object(dictionary)
    }
}

/// STO-1, STO-2: stored messages were discarded, because too many were stored or the device had not
/// connected for too long. An application that keeps in step with a server asks that server anew.
public struct DeletedMessages: Sendable, Hashable {
    public var count: UInt64
    /// That of the last message discarded.
    public var streamID: UInt64
}

/// What comes to an application by itself.
public enum DeviceEvent: Sendable, Hashable {
    case message(IncomingMessage)
    case deleted(DeletedMessages)

    /// The stream ID to acknowledge; nil if there is none.
    var acknowledgedID: UInt64? {
        switch self {
        case .message(let message): message.isStored ? message.streamID : nil
        case .deleted(let deleted): deleted.streamID
        }
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
