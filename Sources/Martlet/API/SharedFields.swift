// SPDX-License-Identifier: Apache-2.0
//
// Fields of a message that two JSON forms have in common: the v1 requests of the gateway, and the message files of
// `martlet send`. A form of its own decides how names are spelled, which further fields there are, and the words of a
// refusal. The order in which a form reads its fields is the order of its refusals. Pure.

package import MartletBase
package import MartletWire

/// A value of a JSON form, and its place.
package protocol MessageField {
    associatedtype Failure: Error
    func text() throws(Failure) -> String
    /// The entries of a map of texts, in the order of keys.
    func entries() throws(Failure) -> [Message.DataEntry]
    func refusal(_ message: String) -> Failure
}

/// A JSON object. The decoder takes the fields one by one, and refuses the rest.
package protocol MessageObject {
    associatedtype Field: MessageField
    mutating func take(_ name: String) throws(Field.Failure) -> Field?
    /// Takes all remaining members, in the order of names.
    mutating func rest() -> [(name: String, field: Field)]
}

extension MessageField {
    /// A text that is the form of a value.
    /// - Parameters:
    ///   - convert: nil refuses the text.
    ///   - words: the sentence of the refusal.
    package func converted<Value>(
        _ convert: (String) -> Value?, else words: String
    ) throws(Failure) -> Value {
        guard let value = convert(try text()) else { throw refusal(words) }
        return value
    }
}

extension MessageField {
    /// The value of a header of this name.
    package func headerValue(_ name: String) throws(Failure) -> String {
        let text = try text()
        guard HTTPFieldText.isName(name) else {
            throw refusal("\(name.prefix(64).debugDescription) cannot be the name of a header.")
        }
        guard HTTPFieldText.isValue(text) else {
            throw refusal(HTTPFieldText.valueFault(of: name))
        }
        return text
    }
}

extension MessageObject {
    /// Takes title, body and image; nil without any of the three.
    package mutating func takeTexts() throws(Field.Failure) -> Message.Notification? {
        let texts = Message.Notification(
            title: try take("title")?.text(), body: try take("body")?.text(),
            image: try take("image")?.text())
        return texts == .init() ? nil : texts
    }
}

extension Message.Android {
    /// Takes the fields that name the message's place on a device, and its data.
    package mutating func takeKeys<Object: MessageObject>(
        _ fields: inout Object
    ) throws(Object.Field.Failure) {
        collapseKey = try fields.take("collapse_key")?.text()
        restrictedPackageName = try fields.take("restricted_package_name")?.text()
        data = try fields.take("data")?.entries() ?? []
    }
}

extension Message.APNS {
    /// Takes the image from `fcm_options`.
    package mutating func takeImage<Object: MessageObject>(
        _ options: inout Object
    ) throws(Object.Field.Failure) {
        guard let image = try options.take("image")?.text() else { return }
        var shown = notification ?? .init()
        shown.image = image
        notification = shown
    }

    /// Takes `apns-priority`: 10 is high; 5 is normal, and so is 1, which Apple is told as it stands.
    package mutating func take<Field: MessageField>(
        priority field: Field
    ) throws(Field.Failure) {
        switch try field.text() {
        case "10": priority = .high
        case "5": priority = .normal
        case "1":
            priority = .normal
            options.append(.init(key: AppleSending.Key.priority, value: "1"))
        default: throw field.refusal("apns-priority is 10, 5 or 1.")
        }
    }

    /// Takes `live_activity_token`.
    package mutating func takeActivityToken<Object: MessageObject>(
        _ fields: inout Object
    ) throws(Object.Field.Failure) {
        guard let token = try fields.take(AppleSending.Key.activityToken)?.text() else { return }
        options.append(.init(key: AppleSending.Key.activityToken, value: token))
    }

    /// Takes further headers as options, which go on to Apple if they have a meaning there.
    package mutating func take<Field: MessageField>(
        furtherHeaders headers: [(name: String, field: Field)]
    ) throws(Field.Failure) {
        for (name, field) in headers {
            options.append(.init(key: name.lowercased(), value: try field.headerValue(name)))
        }
    }

    /// Whether Apple's own default holds, which is 10: the user sees or hears something, or the notification is of a kind
    /// that has its place beside alerts and background.
    package var isUrgent: Bool {
        let type = options.first { $0.key == AppleSending.Key.pushType }?.value
        if type == ApplePushType.background.rawValue { return false }
        if let type, type != ApplePushType.alert.rawValue { return true }
        return notification != nil || payload.subtitle != nil || payload.badge != nil
            || payload.sound != nil || payload.aps.contains { ["alert", "sound"].contains($0.key) }
            || options.contains { $0.key == AppleSending.Key.activityToken }
    }

    /// Headers that a message file may have beside those with a field of their own.
    package static let furtherHeaders = [
        AppleSending.Key.pushType, AppleSending.Key.topic, AppleSending.Key.identifier,
    ]

    /// Members of `aps` that Apple documents.
    package static var documentedMembers: [String] { AppleMember.names }

    /// Whether the payload may be without `aps`: a command of device management has none.
    package var mayLackAps: Bool {
        options.contains {
            $0.key == AppleSending.Key.pushType && $0.value == ApplePushType.mdm.rawValue
        }
    }

    /// Seconds of `apns-expiration`: nil for a text that is no instant in seconds since 1970.
    package static func expirationSeconds(_ text: String) -> Int64? {
        guard let seconds = Int64(text), Lifespan(unixSeconds: seconds) != nil else { return nil }
        return seconds
    }
}

extension Lifespan {
    /// The length of a life that is given in seconds; nil for an instant.
    package var seconds: UInt32? { if case .seconds(let seconds) = self { seconds } else { nil } }
}

extension JSONValue {
    /// A text unchanged, and any other value as JSON.
    package var plainText: String { string ?? text }
}

extension String {
    /// A name in snake_case as lowerCamelCase.
    package var inCamelCase: String {
        let words = split(separator: "_")
        return words.dropFirst().reduce(String(words.first ?? "")) {
            $0 + $1.prefix(1).uppercased() + $1.dropFirst()
        }
    }
}
