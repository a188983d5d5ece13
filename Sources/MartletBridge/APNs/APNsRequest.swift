// SPDX-License-Identifier: Apache-2.0
//
// Turns a message into a request to Apple's push service: path, headers and payload. What the sender set (kind, topic,
// priority, expiration, ID) goes to Apple unchanged; the rest follows from the message and the app. Apart from the provider
// token, a message always makes the same request for the same instance, so trying again can't make a second notification.
// Pure.
// Source: Apple, "Sending notification requests to APNs", "Generating a remote notification".

import Martlet
import MartletCrypto
package import MartletRows
package import MartletWire

/// A request to Apple's push service.
package struct APNsRequest: Sendable, Equatable {
    package private(set) var path: String
    package private(set) var headers: [(name: String, value: String)]
    package private(set) var payload: [UInt8]
    /// Whether the request goes to the instance's own address, so that the instance is gone if Apple says the address is.
    /// A Live Activity's token ends with the activity, and another topic is not about the app.
    package private(set) var isForInstance: Bool

    /// - Throws: `MartletError` if the message can't be read, or if an earlier version accepted what Apple refuses.
    package init(_ message: Deliver, to address: APNsAddress, holder: Holder, projectID: String)
        throws(MartletError)
    {
        let content: Message
        do { content = try Message(decoding: message.message, unknownTags: .skip) } catch {
            throw error.martletError
        }
        let sending = try AppleSending(content.options)
        var dictionary = Self.dictionary(content, messageID: message.messageID(in: projectID))
        let type =
            sending.namedType ?? Self.type(ofTopic: sending.topic, address.bundle)
            ?? Self.type(of: dictionary)
        let topic = sending.topic ?? Self.topic(address.bundle, type)
        // A device management command has no other members.
        if type == .mdm, dictionary["aps"] == .object([:]) { dictionary["aps"] = nil }
        path = "/3/device/" + (sending.activityToken ?? Self.hexadecimal(address.token))
        payload = Array(JSONValue.object(dictionary).text.utf8)
        isForInstance = sending.activityToken == nil && topic == address.bundle
        headers = [
            ("apns-id", sending.identifier ?? Self.identifier(of: message, holder, projectID)),
            ("apns-topic", topic),
            ("apns-push-type", type.rawValue),
            ("apns-priority", Self.priority(of: message, type, sending)),
            ("apns-expiration", Self.expiration(of: message)),
        ]
        if let key = Message.deliveredCollapseKey(in: message.message) {
            headers.append(("apns-collapse-id", Self.collapseID(key)))
        }
    }

    /// What the application gets, with the message's ID beside `aps` (MSG-5).
    private static func dictionary(
        _ content: Message, messageID: String
    ) -> JSONObject {
        let all = Message.appleDictionary(
            content.notification, content.data, content.applePayload)
        guard case .object(var members) = all else { return [:] }
        members["gcm.message_id"] = .string(messageID)
        return members
    }

    /// The kind that a topic names after the bundle ID; nil if it names none.
    private static func type(ofTopic topic: String?, _ bundle: String) -> ApplePushType? {
        guard let topic, topic != bundle else { return nil }
        return ApplePushType.allCases.first { topic == bundle + $0.topicSuffix }
    }

    /// The app's topic for a kind. Some apps are registered with such a topic already.
    private static func topic(_ bundle: String, _ type: ApplePushType) -> String {
        bundle.hasSuffix(type.topicSuffix) ? bundle : bundle + type.topicSuffix
    }

    private static func priority(
        of message: Deliver, _ type: ApplePushType, _ sending: AppleSending
    ) -> String {
        if sending.isOfLowestPriority { return "1" }
        // Apple refuses background notifications of high priority.
        return message.priority == .high && type != .background ? "10" : "5"
    }

    /// Without alert, badge and sound a notification is only for the app.
    private static func type(of dictionary: JSONObject) -> ApplePushType {
        guard case .object(let aps) = dictionary["aps"] else { return .background }
        return ["alert", "badge", "sound"].contains { aps[$0] != nil } ? .alert : .background
    }

    /// With 0 Apple tries once and keeps nothing.
    private static func expiration(of message: Deliver) -> String {
        guard message.isStored else { return "0" }
        if let given = Message.deliveredExpiration(in: message.message), given > 0 {
            return "\(given)"
        }
        return "\(max(1, message.expires.millisecondsSince1970 / 1000))"
    }

    /// Apple takes 64 bytes. A longer key is replaced by its digest, so that equal keys stay equal. So is a key that can't be
    /// in a header, which an earlier version accepted.
    private static func collapseID(_ key: String) -> String {
        let isShort = key.utf8.count <= BridgeLimits.apnsCollapseBytesMax
        if isShort, HTTPFieldText.isValue(key) { return key }
        return Base64URL.encode(SHA256.hash(Array(key.utf8)))
    }

    /// A UUID made from message and instance (RFC 9562, version 8), so that every attempt has the same one.
    private static func identifier(
        of message: Deliver, _ holder: Holder, _ projectID: String
    ) -> String {
        let text = "\(projectID) \(message.streamID) \(holder.word)"
        var bytes = Array(SHA256.hash(Array(text.utf8)).prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = hexadecimal(bytes)
        var parts: [Substring] = []
        var rest = digits[...]
        for count in [8, 4, 4, 4, 12] {
            parts.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        return parts.joined(separator: "-")
    }

    static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
            as: UTF8.self)
    }

    package static func == (left: APNsRequest, right: APNsRequest) -> Bool {
        left.path == right.path && left.payload == right.payload
            && left.isForInstance == right.isForInstance
            && left.headers.elementsEqual(right.headers) { $0 == $1 }
    }
}

extension Deliver {
    /// Message ID as the sender knows it.
    fileprivate func messageID(in projectID: String) -> String {
        "projects/\(projectID)/messages/\(messageNumber)"
    }
}
