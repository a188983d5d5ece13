// SPDX-License-Identifier: Apache-2.0
//
// The types of the members of `aps` (GW-17). A member of another type is refused when the message is accepted, because the
// device ignores it or Apple refuses the payload, and the sender would not hear of it. Members that Apple does not document
// are free. Pure.
// Source: Apple, "Generating a remote notification", "Starting and updating Live Activities with ActivityKit push
// notifications".

package import MartletBase

/// The members of `aps`.
package enum AppleMember {
    /// A member of the wrong type.
    struct Fault {
        /// Path of the member in `aps`.
        var path: String
        var message: String
    }

    private enum Kind {
        case text
        /// A text, or an object that names a localised one.
        case textOrObject
        case number
        /// A whole number from 0 on.
        case count
        /// 1, 0, true or false.
        case mark
        case list
        case object
        case alert
        case sound
    }

    private static let members: [String: Kind] = [
        "alert": .alert, "badge": .count, "sound": .sound, "thread-id": .text, "category": .text,
        "content-available": .mark, "mutable-content": .mark, "target-content-id": .text,
        "interruption-level": .text, "relevance-score": .number, "filter-criteria": .text,
        "url-args": .list, "content-changed": .mark,
        // Live Activities.
        "timestamp": .number, "stale-date": .number, "dismissal-date": .number, "event": .text,
        "content-state": .object, "attributes-type": .text, "attributes": .object,
    ]

    /// The members that Apple documents, in order.
    package static let names: [String] = members.keys.sorted()

    private static let alertMembers: [String: Kind] = [
        // The alert of a Live Activity has objects with `loc-key` here.
        "title": .textOrObject, "subtitle": .textOrObject, "body": .textOrObject,
        "launch-image": .text, "title-loc-key": .text, "title-loc-args": .list,
        "subtitle-loc-key": .text, "subtitle-loc-args": .list, "loc-key": .text, "loc-args": .list,
        "action-loc-key": .text, "summary-arg": .text, "summary-arg-count": .number,
    ]

    private static let soundMembers: [String: Kind] = [
        "name": .text, "critical": .mark, "volume": .number,
    ]

    /// The first fault of a member of `aps`; nil if its type is right. A null is as good as no member.
    static func fault(of value: JSONValue, _ name: String) -> Fault? {
        fault(of: value, name, at: name, members)
    }

    private static func fault(
        of value: JSONValue, _ name: String, at path: String, _ kinds: [String: Kind]
    ) -> Fault? {
        guard let kind = kinds[name], value != .null else { return nil }
        let words: String
        switch (kind, value) {
        case (.text, .string), (.textOrObject, .string), (.textOrObject, .object), (.list, .array),
            (.object, .object), (.number, .integer), (.number, .number), (.mark, .bool),
            (.sound, .string), (.alert, .string):
            return nil
        case (.count, _) where value.wholeNumber.flatMap { UInt32(exactly: $0) } != nil,
            (.mark, _) where value.wholeNumber == 0 || value.wholeNumber == 1:
            return nil
        case (.alert, .object(let inner)): return firstFault(inner, in: path, alertMembers)
        case (.sound, .object(let inner)): return firstFault(inner, in: path, soundMembers)
        case (.text, _): words = "takes a text"
        case (.textOrObject, _), (.alert, _), (.sound, _): words = "takes a text or an object"
        case (.number, _): words = "takes a number"
        case (.count, _): words = "takes a whole number from 0 to \(UInt32.max)"
        case (.mark, _): words = "takes 1 or 0"
        case (.list, _): words = "takes a list of texts"
        case (.object, _): words = "takes an object"
        }
        return Fault(path: path, message: "\(name) \(words).")
    }

    private static func firstFault(
        _ members: JSONObject, in path: String, _ kinds: [String: Kind]
    ) -> Fault? {
        for (name, value) in members {
            if let fault = fault(of: value, name, at: "\(path).\(name)", kinds) { return fault }
        }
        return nil
    }
}

extension JSONValue {
    /// A whole number, however it is written: `5`, `5.0` and `5e0` are the same number, and some libraries write only the
    /// second. nil for any other value.
    package var wholeNumber: Int64? {
        switch self {
        case .integer(let number): number
        case .number(let number): Int64(exactly: number.value)
        default: nil
        }
    }

    /// Whether the value is an object.
    var isObject: Bool { if case .object = self { true } else { false } }
}
