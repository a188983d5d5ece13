// SPDX-License-Identifier: Apache-2.0
//
// A message as JSON, in the shape of the message object of FCM's HTTP v1 interface. A key that is not
// known here is refused with its place: a misspelled field must not be lost silently.
// Rests on FoundationEssentials.

import FoundationEssentials
import Martlet

struct MessageFile {
    /// All that it names: one is right (MSG-1).
    private(set) var targets: [MessageTarget] = []
    private(set) var message = Message()
    private(set) var validateOnly = false

    init(json: Data) throws(MartletError) {
        let value: Value
        do {
            value = try JSONDecoder().decode(Value.self, from: json)
        } catch {
            throw Self.refusal("This is no JSON (\(Self.reason(error))).", "file")
        }
        var fields = try Self.object(value, "file")
        var path = ""
        if let inner = fields["message"] {
            path = "message."
            for (key, value) in fields where key != "message" {
                guard key == "validate_only" || key == "validateOnly" else {
                    throw Self.unknown(key, among: ["message", "validate_only"])
                }
                guard case .bool(let flag) = value else {
                    throw Self.refusal("It takes true or false.", key)
                }
                validateOnly = flag
            }
            fields = try Self.object(inner, "message")
        }
        for (key, value) in fields.sorted(by: { $0.key < $1.key }) {
            switch key {
            case "token": targets.append(.token(try Self.text(value, path + key)))
            case "topic": targets.append(.topic(try Self.text(value, path + key)))
            case "condition": targets.append(.condition(try Self.text(value, path + key)))
            case "notification": message.notification = try Self.notification(value, path + key)
            case "data": message.data = try Self.data(value, path + key)
            default:
                throw Self.unknown(
                    path + key, among: ["token", "topic", "condition", "notification", "data"])
            }
        }
    }

    private static func notification(
        _ value: Value, _ path: String
    ) throws(MartletError) -> Message.Notification {
        var notification = Message.Notification()
        for (key, value) in try object(value, path) {
            let text = try text(value, "\(path).\(key)")
            switch key {
            case "title": notification.title = text
            case "body": notification.body = text
            case "image": notification.image = text
            default: throw unknown("\(path).\(key)", among: ["title", "body", "image"])
            }
        }
        return notification
    }

    private static func data(
        _ value: Value, _ path: String
    ) throws(MartletError) -> [Message.DataEntry] {
        var entries: [Message.DataEntry] = []
        for (key, value) in try object(value, path).sorted(by: { $0.key < $1.key }) {
            entries.append(.init(key: key, value: try text(value, "\(path).\(key)")))
        }
        return entries
    }

    // MARK: JSON

    private enum Value: Decodable {
        case object([String: Value])
        case text(String)
        case bool(Bool)
        /// Numbers, lists and null: nothing here takes them.
        case other

        init(from decoder: any Decoder) throws {
            if let fields = try? decoder.container(keyedBy: AnyKey.self) {
                self = .object(
                    try fields.allKeys.reduce(into: [:]) { result, key in
                        result[key.stringValue] = try fields.decode(Value.self, forKey: key)
                    })
                return
            }
            if (try? decoder.unkeyedContainer()) != nil {
                self = .other
                return
            }
            let value = try decoder.singleValueContainer()
            if let text = try? value.decode(String.self) {
                self = .text(text)
            } else if let flag = try? value.decode(Bool.self) {
                self = .bool(flag)
            } else {
                self = .other
            }
        }
    }

    private struct AnyKey: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private static func object(
        _ value: Value, _ path: String
    ) throws(MartletError) -> [String: Value] {
        guard case .object(let fields) = value else {
            throw refusal("It takes an object, {\"…\": …}.", path)
        }
        return fields
    }

    private static func text(_ value: Value, _ path: String) throws(MartletError) -> String {
        guard case .text(let text) = value else {
            throw refusal("It takes a string in double quotes.", path)
        }
        return text
    }

    private static func unknown(_ path: String, among names: [String]) -> MartletError {
        refusal("There is no such field here; there are \(names.joined(separator: ", ")).", path)
    }

    private static func refusal(_ message: String, _ path: String) -> MartletError {
        MartletError(.invalidArgument, message, field: path)
    }

    private static func reason(_ error: any Error) -> String {
        if case DecodingError.dataCorrupted(let context)? = error as? DecodingError {
            return context.underlyingError.map { "\($0)" } ?? context.debugDescription
        }
        return "\(error)"
    }
}
