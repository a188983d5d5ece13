// SPDX-License-Identifier: Apache-2.0
//
// Reads the head of a sender's request: time to live, urgency, topic, and the body's coding. Values that RFC 8030 doesn't
// allow are refused with the number that libraries know; only an unknown urgency counts as normal. Rests on GatewayCall.
// Source: RFC 8030, section 5; RFC 8188; the drafts of `aesgcm` (Encryption and Crypto-Key).

import Martlet
import MartletGateway

/// What the head of a request says about its message.
struct PushHead: Sendable {
    /// Seconds, at most `Limits.timeToLiveSecondsMax` (TTL-1).
    var timeToLiveSeconds: UInt32
    var priority: MessagePriority
    var topic: String?
    /// What the user agent needs to decrypt the body; empty for `aes128gcm`.
    var options: [Message.DataEntry]
    /// nil if the head names none, which is right only without a body.
    var coding: String?

    static let topicBytesMax = 32

    /// - Throws: `PushError` 400 with the reason, or 413 if the announced body is too long.
    init(_ call: GatewayCall) throws(PushError) {
        timeToLiveSeconds = try Self.timeToLive(call.header("ttl"))
        priority = call.header("urgency")?.lowercased() == "high" ? .high : .normal
        topic = call.header("topic")
        if let topic {
            guard (1...Self.topicBytesMax).contains(topic.utf8.count),
                topic.utf8.allSatisfy({ Self.isTopicByte($0) })
            else {
                throw PushError(
                    400, 113,
                    "A topic has 1 to \(Self.topicBytesMax) characters of [A-Za-z0-9_-].")
            }
        }
        let announced = call.header("content-length").flatMap { Int($0) } ?? 0
        guard announced <= Limits.opaqueBytesMax else { throw .tooLong }
        coding = call.header("content-encoding")?.lowercased()
        options = []
        switch coding {
        case "aes128gcm"?: break
        case "aesgcm"?: options = try Self.draftOptions(call)
        case let other?:
            throw PushError(400, 110, "The coding '\(other.prefix(32))' is not known.")
        case nil:
            guard announced == 0 else { throw Self.noCoding }
        }
    }

    static let noCoding = PushError(
        400, 110, "A message with a body must name its coding: Content-Encoding: aes128gcm.")

    private static func timeToLive(_ text: String?) throws(PushError) -> UInt32 {
        guard let text, let seconds = Int64(text.filter { $0 != " " }) else {
            // Too large for 64 bits, but still a number: take the longest time there is.
            if let text, !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) {
                return Limits.timeToLiveSecondsMax
            }
            throw PushError(
                400, 111, "The header TTL must have the message's time to live in seconds.")
        }
        guard seconds >= 0 else {
            throw PushError(400, 114, "The header TTL must not be negative.")
        }
        return UInt32(min(seconds, Int64(Limits.timeToLiveSecondsMax)))
    }

    /// The salt and the sender's key, which the draft's coding puts in headers.
    private static func draftOptions(
        _ call: GatewayCall
    ) throws(PushError) -> [Message.DataEntry] {
        guard let salt = parameters(call.list("encryption"), ["salt", "rs"]),
            let key = parameters(call.list("crypto-key"), ["dh"])
        else {
            throw PushError(
                400, 110,
                "The coding aesgcm needs the headers Encryption with salt and Crypto-Key with dh.")
        }
        return [
            .init(key: PushOption.encoding, value: "aesgcm"),
            .init(key: PushOption.encryption, value: salt),
            .init(key: PushOption.cryptoKey, value: key),
        ]
    }

    /// These parameters of a header; nil if the first is missing.
    private static func parameters(_ header: String?, _ names: [String]) -> String? {
        guard let header, header.utf8.count <= 512 else { return nil }
        let all = HeaderParameters.list(header)
        guard all.contains(where: { $0.name == names[0] }) else { return nil }
        return names.compactMap { name in
            all.first { $0.name == name }.map { "\(name)=\($0.value)" }
        }.joined(separator: ";")
    }

    private static func isTopicByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

/// Names of the options that a Web Push message has.
enum PushOption {
    static let encoding = "encoding"
    static let encryption = "encryption"
    static let cryptoKey = "crypto_key"
}

/// A header's `name=value` parameters, separated by commas or semicolons.
enum HeaderParameters {
    static func list(_ text: some StringProtocol) -> [(name: String, value: String)] {
        String(text).split(whereSeparator: { $0 == "," || $0 == ";" }).compactMap { part in
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2 else { return nil }
            let value = sides[1].filter { $0 != " " && $0 != "\"" && $0 != "\t" }
            return (sides[0].filter { $0 != " " && $0 != "\t" }.lowercased(), String(value))
        }
    }
}
