// SPDX-License-Identifier: Apache-2.0
//
// Reads user agents' messages and writes our answers, both JSON. Unknown messages are ignored, and so are the fields of
// some dialect that we have no use for. Rests on JSONValue.

import Martlet
import MartletWire

/// A message from a user agent.
enum AgentMessage {
    /// - Parameter agent: the secret ID of a user agent that has been here before; nil for a new one.
    case hello(agent: String?)
    /// - Parameters:
    ///   - channel: nil if the text isn't a channel's ID.
    ///   - key: the key of the one application server that may send; nil if anybody with the endpoint may.
    case register(channelText: String, channel: ChannelID?, key: String?)
    case unregister(channelText: String, channel: ChannelID?)
    case acknowledge([Ending])
    /// A worker refused a message.
    case refused
    /// A sign of life. We answer it.
    case ping
    /// Whether it wants only urgent messages for now (PRI-2).
    case urgency(isDoze: Bool)
    /// A message that needs no answer.
    case other

    /// What became of a message at the user agent.
    struct Ending {
        var channel: ChannelID
        var streamID: UInt64
        var code: Int64?
    }

    /// Past this many endings in one message we ignore the rest. A mailbox holds fewer.
    private static let endingsMax = 1024

    /// - Returns: nil unless the text is a JSON object.
    init?(_ text: [UInt8]) {
        guard let value = try? JSONValue(parsing: text, repeatedNames: .takeLast),
            case .object(let members) = value
        else { return nil }
        let channelText = value["channelID"]?.string ?? ""
        switch value["messageType"]?.string {
        case nil where members.isEmpty: self = .ping
        case "ping"?: self = .ping
        case "hello"?:
            let agent = value["uaid"]?.string ?? ""
            self = .hello(agent: agent.isEmpty ? nil : agent)
        case "register"?:
            let key = value["key"]?.string ?? ""
            self = .register(
                channelText: channelText, channel: ChannelID(channelText),
                key: key.isEmpty ? nil : key)
        case "unregister"?:
            self = .unregister(channelText: channelText, channel: ChannelID(channelText))
        case "ack"?:
            guard case .array(let updates)? = value["updates"] else {
                self = .acknowledge([])
                return
            }
            self = .acknowledge(updates.prefix(Self.endingsMax).compactMap { Ending($0) })
        case "nack"?: self = .refused
        case "urgency"?: self = .urgency(isDoze: value["min"]?.string == "high")
        default: self = .other
        }
    }
}

extension AgentMessage.Ending {
    fileprivate init?(_ update: JSONValue) {
        guard let channel = ChannelID(update["channelID"]?.string ?? ""),
            let streamID = UInt64(update["version"]?.string ?? "")
        else { return nil }
        self.channel = channel
        self.streamID = streamID
        code = if case .integer(let code)? = update["code"] { code } else { nil }
    }
}

/// A message to a user agent.
enum AgentAnswer {
    static let pong = "{}"

    static func hello(_ agent: String) -> String {
        JSONValue.object([
            "messageType": .string("hello"), "uaid": .string(agent), "status": .integer(200),
            "use_webpush": .bool(true), "broadcasts": .object([:]),
        ]).text
    }

    static func registered(_ channel: ChannelID, at endpoint: String) -> String {
        JSONValue.object([
            "messageType": .string("register"), "channelID": .string(channel.description),
            "status": .integer(200), "pushEndpoint": .string(endpoint),
        ]).text
    }

    /// Refuses a registration. Never with an endpoint: the user agent would keep it.
    static func notRegistered(_ channel: String, status: Int64) -> String {
        self.status(status, of: "register", channel)
    }

    static func unregistered(_ channel: String, status: Int64) -> String {
        self.status(status, of: "unregister", channel)
    }

    private static func status(_ status: Int64, of type: String, _ channel: String) -> String {
        JSONValue.object([
            "messageType": .string(type), "channelID": .string(channel),
            "status": .integer(status),
        ]).text
    }

    static let urgencyTaken =
        JSONValue.object(["messageType": .string("urgency"), "status": .integer(200)]).text

    /// A message for a channel. If it is empty, it is an event without data.
    static func notification(_ deliver: Deliver, of channel: ChannelID) throws(WireError) -> String
    {
        let message = try Message(decoding: deliver.message, unknownTags: .skip)
        var text = #"{"messageType":"notification","channelID":""#
        text += channel.description
        text += #"","version":""# + String(deliver.streamID) + #"""#
        if let content = message.opaque, !content.isEmpty {
            var headers: JSONObject = [PushOption.encoding: .string("aes128gcm")]
            for option in message.options { headers[option.key] = .string(option.value) }
            text += #","data":""# + Base64URL.encode(content)
            text += #"","headers":"# + JSONValue.object(headers).text
        }
        return text + "}"
    }
}
