// SPDX-License-Identifier: Apache-2.0
//
// The messages of user agents, and the door's answers: JSON texts over a WebSocket. Fields that a dialect has and the
// door does not need are ignored, and so are unknown messages. Rests on JSONValue.

import Martlet
import MartletWire

/// A message of a user agent.
enum AgentMessage {
    /// - Parameter agent: the secret ID of a user agent that has connected before; nil: a new user agent.
    case hello(agent: String?)
    /// - Parameters:
    ///   - channel: nil for a text that is no channel.
    ///   - key: of the only application server that may send; nil: anybody with the endpoint may.
    case register(channelText: String, channel: ChannelID?, key: String?)
    case unregister(channelText: String, channel: ChannelID?)
    case acknowledge([Ending])
    /// A worker refused a message.
    case refused
    /// A sign of life, which is answered.
    case ping
    /// PRI-2: whether only urgent messages are wanted.
    case urgency(isDoze: Bool)
    /// A message that needs no answer.
    case other

    /// The end of a message at the user agent.
    struct Ending {
        var channel: ChannelID
        var streamID: UInt64
        var code: Int64?
    }

    /// Endings in one message past which the rest is ignored: as many as a mailbox holds, and more.
    private static let endingsMax = 1024

    /// - Returns: nil for a text that is no JSON object.
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

/// What the door says to a user agent.
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

    /// A refused registration has no endpoint, because a user agent keeps any endpoint that it is told.
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

    /// A message for a channel. An empty message is an event without data.
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
