// SPDX-License-Identifier: Apache-2.0
//
// A message as a request to Apple's push service: path, headers and payload. A message for an instance always makes the
// same request, but for the provider token, so an attempt that is repeated is the same notification. Pure.
// Source: Apple, "Sending notification requests to APNs", "Generating a remote notification".

import Martlet
import MartletCrypto
import MartletRows
import MartletWire

/// A request to Apple's push service.
struct APNsRequest: Sendable, Equatable {
    /// Kinds of notifications (`apns-push-type`).
    enum PushType: String, Sendable {
        /// The user sees or hears something.
        case alert
        /// The app is woken, and the user notices nothing.
        case background
    }

    var path: String
    var headers: [(name: String, value: String)]
    var payload: [UInt8]

    /// - Throws: `WireError` for a message that cannot be read.
    init(_ message: Deliver, to address: APNsAddress, holder: Holder, projectID: String)
        throws(WireError)
    {
        let content = try Message(decoding: message.message, unknownTags: .skip)
        let dictionary = Self.dictionary(content, messageID: message.messageID(in: projectID))
        let type = Self.type(of: dictionary)
        path = "/3/device/" + Self.hexadecimal(address.token)
        payload = Array(JSONValue.object(dictionary).text.utf8)
        headers = [
            ("apns-id", Self.identifier(of: message, holder, projectID)),
            ("apns-topic", address.bundle),
            ("apns-push-type", type.rawValue),
            // Apple refuses a background notification of high priority.
            ("apns-priority", message.priority == .high && type == .alert ? "10" : "5"),
            ("apns-expiration", Self.expiration(of: message)),
        ]
        if let key = Message.deliveredCollapseKey(in: message.message) {
            headers.append(("apns-collapse-id", Self.collapseID(key)))
        }
    }

    /// MSG-5: what the application gets, with the message's ID beside `aps`.
    private static func dictionary(
        _ content: Message, messageID: String
    ) -> JSONObject {
        let all = Message.appleDictionary(
            content.notification, content.data, content.applePayload)
        guard case .object(var members) = all else { return [:] }
        members["gcm.message_id"] = .string(messageID)
        return members
    }

    /// A notification without alert, badge and sound is for the app alone.
    private static func type(of dictionary: JSONObject) -> PushType {
        guard case .object(let aps) = dictionary["aps"] else { return .background }
        return ["alert", "badge", "sound"].contains { aps[$0] != nil } ? .alert : .background
    }

    /// 0: Apple tries once and keeps nothing.
    private static func expiration(of message: Deliver) -> String {
        guard message.isStored else { return "0" }
        return "\(max(1, message.expires.millisecondsSince1970 / 1000))"
    }

    /// Apple takes 64 bytes. A longer key is replaced by its digest, so equal keys stay equal.
    private static func collapseID(_ key: String) -> String {
        guard key.utf8.count > BridgeLimits.apnsCollapseBytesMax else { return key }
        return Base64URL.encode(SHA256.hash(Array(key.utf8)))
    }

    /// A UUID made of message and instance (RFC 9562, version 8), so a repeated attempt has the same.
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

    static func == (left: APNsRequest, right: APNsRequest) -> Bool {
        left.path == right.path && left.payload == right.payload
            && left.headers.elementsEqual(right.headers) { $0 == $1 }
    }
}

extension Deliver {
    /// Message ID as the sender knows it.
    fileprivate func messageID(in projectID: String) -> String {
        "projects/\(projectID)/messages/\(messageNumber)"
    }
}
