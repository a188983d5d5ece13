// SPDX-License-Identifier: Apache-2.0
//
// The JSON that the server sends: answers, devices' messages, receipts, and CONNECTION_DRAINING. Rests on JSONValue.

import Martlet

/// A message from the server to an app server.
struct ServerMessage: Sendable {
    private var members: JSONObject

    private init(_ members: JSONObject) { self.members = members }

    /// The message as a stanza.
    var xml: String {
        """
        <message id=""><gcm xmlns="\(Namespace.messages)">\
        \(XML.escaped(json: JSONValue.object(members).text))</gcm></message>
        """
    }

    // MARK: Answers

    /// Which members of a group got the message.
    private static func results(_ tokens: TokenResults) -> JSONObject {
        var members: JSONObject = [
            "success": .integer(Int64(tokens.successCount)),
            "failure": .integer(Int64(tokens.failures.count)),
        ]
        if !tokens.failures.isEmpty {
            members["failed_registration_ids"] = .array(tokens.failures.map { .string($0.token) })
        }
        return members
    }

    /// - Parameters:
    ///   - canonical: the instance's present token, if the app server wrote an earlier one.
    ///   - group: the members' results, if the target is a group.
    static func accepted(
        _ message: DownstreamMessage, canonical: String? = nil, group: TokenResults? = nil
    ) -> ServerMessage {
        var members: JSONObject = [
            "message_type": .string("ack"), "from": .string(message.target),
            "message_id": .string(message.messageID),
        ]
        if let canonical { members["registration_id"] = .string(canonical) }
        if let group { members.merge(results(group)) }
        return ServerMessage(members)
    }

    /// - Parameter target: nil if the message named none.
    static func refused(
        messageID: String, target: String?, _ refusal: Refusal, group: TokenResults? = nil
    ) -> ServerMessage {
        var members: JSONObject = [
            "message_type": .string("nack"), "message_id": .string(messageID),
            "error": .string(refusal.error.rawValue),
            "error_description": .string(refusal.description),
        ]
        if let target { members["from"] = .string(target) }
        if let group { members.merge(results(group)) }
        return ServerMessage(members)
    }

    // MARK: Messages to be acknowledged

    /// A device's message (UPS-1).
    static func upstream(_ message: DeviceMessage) -> ServerMessage {
        ServerMessage([
            "category": .string(message.app), "data": .object(JSONObject(message.data)),
            "message_id": .string(message.messageID), "from": .string(message.token),
        ])
    }

    /// A device has taken a message (RCP-1).
    static func receipt(_ receipt: NamedReceipt, from domain: String) -> ServerMessage {
        ServerMessage([
            "message_type": .string("receipt"), "from": .string(domain),
            "message_id": .string(receipt.messageID), "category": .string(receipt.app),
            "data": .object([
                "message_status": .string("MESSAGE_SENT_TO_DEVICE"),
                "original_message_id": .string(receipt.originalID),
                "device_registration_id": .string(receipt.token),
            ]),
        ])
    }

    /// Asks the app server to send on another connection from now on.
    static let draining = ServerMessage([
        "message_type": .string("control"), "control_type": .string("CONNECTION_DRAINING"),
    ])
}
