// SPDX-License-Identifier: Apache-2.0
//
// Reads an app server's JSON: a message to devices, or the acknowledgement of a device's message or of a receipt. If
// something is wrong we answer with a `nack` that has the message's ID; without an ID we can only refuse the stanza.
// Unknown fields are ignored, as this interface has always done. Rests on LegacyRequest.

import Martlet
import MartletGateway

/// A message of an app server.
enum AppServerMessage: Sendable {
    case send(DownstreamMessage)
    /// - Parameters:
    ///   - to: the `from` of the acknowledged message.
    ///   - messageID: the ID of the acknowledged message.
    case acknowledgement(to: String, messageID: String)

    /// A fault in the JSON.
    enum Fault: Error, Sendable, Hashable {
        /// There is no ID to answer with.
        case stanza(StanzaError)
        case refused(messageID: String, target: String?, Refusal)
    }

    /// - Parameter timeToLiveMax: finds the longest time to live of the project, in seconds.
    init(json: String, timeToLiveMax: () -> UInt32) throws(Fault) {
        let value: JSONValue
        do { value = try JSONValue(document: Array(json.utf8), repeatedNames: .takeLast) } catch {
            throw .stanza(
                Self.parsingError("At byte \(error.byteOffset): \(error.message)."))
        }
        guard case .object(let members) = value else {
            throw .stanza(Self.parsingError("The element gcm does not contain a JSON object."))
        }
        guard let id = members["message_id"], id != .null else {
            throw .stanza(Self.parsingError("Missing Required Field: message_id"))
        }
        guard let messageID = id.string,
            (1...XMPPLimits.messageIDBytesMax).contains(messageID.utf8.count)
        else {
            throw .stanza(
                Self.parsingError(
                    """
                    Field "message_id" must be a JSON string of 1 to \
                    \(XMPPLimits.messageIDBytesMax) bytes.
                    """))
        }
        let target = members["to"]?.string ?? members["condition"]?.string
        do throws(Refusal) {
            switch members["message_type"] ?? .null {
            case .null:
                self = .send(
                    try DownstreamMessage(
                        members, id: messageID, timeToLiveMax: timeToLiveMax))
            case .string("ack"):
                guard let to = members["to"]?.string, !to.isEmpty else {
                    throw Refusal(
                        .badAcknowledgement,
                        "An ack needs the field to: the field from of the acknowledged message.")
                }
                self = .acknowledgement(to: to, messageID: messageID)
            default:
                throw .invalid(
                    "JSON_PARSING_ERROR",
                    "Field \"message_type\" of an app server is ack, or is left out.")
            }
        } catch {
            throw .refused(messageID: messageID, target: target, error)
        }
    }

    private static func parsingError(_ text: String) -> StanzaError {
        StanzaError(.badRequest, "InvalidJson: JSON_PARSING_ERROR : \(text)")
    }
}

/// A message of an app server to devices.
struct DownstreamMessage: Sendable {
    var messageID: String
    /// The field `to`, or the condition.
    var target: String
    var message: OutgoingMessage

    fileprivate init(
        _ members: JSONObject, id: String, timeToLiveMax: () -> UInt32
    ) throws(Refusal) {
        guard members["registration_ids"] == nil else {
            throw .invalid(
                "JSON_PARSING_ERROR",
                "Field \"registration_ids\" is for HTTP alone; send a message to each token.")
        }
        guard let target = members["to"] ?? members["condition"], target != .null else {
            throw .invalid("JSON_PARSING_ERROR", "Missing Required Field: to")
        }
        try Self.check(members["time_to_live"], most: timeToLiveMax)
        let wantsReceipt: Bool
        switch members["delivery_receipt_requested"] ?? .null {
        case .null: wantsReceipt = false
        case .bool(let flag): wantsReceipt = flag
        default:
            throw .invalid(
                "JSON_TYPE_ERROR", "Field \"delivery_receipt_requested\" must be a JSON boolean.")
        }
        do throws(GatewayError) {
            let request = try LegacyRequest(fields: RequestObject(members: members, path: ""))
            message = request.message
            message.wantsReceipts = wantsReceipt
        } catch {
            throw Refusal(error)
        }
        messageID = id
        self.target = target.string ?? ""
    }

    private static func check(_ timeToLive: JSONValue?, most: () -> UInt32) throws(Refusal) {
        let seconds: Double
        switch timeToLive ?? .null {
        case .integer(let number): seconds = Double(number)
        case .number(let number): seconds = number.value
        // A number in quotation marks will do.
        default: return
        }
        // The project may allow more than the default. If it allows less, the broker refuses the message.
        guard !(0...Double(Limits.timeToLiveSecondsMax)).contains(seconds) else { return }
        let most = most()
        guard !(0...Double(most)).contains(seconds) else { return }
        throw .invalid(
            "INVALID_TTL",
            """
            Invalid value (\((timeToLive ?? .null).text)) for "time_to_live": must be between 0 \
            and "\(most)"
            """)
    }
}
