// SPDX-License-Identifier: Apache-2.0
//
// What a sender says to Apple's push service beside payload, expiration and collapse key (GW-17): the kind of the
// notification, its topic, its ID, and the token of a Live Activity. They are options of the block, under the names of the
// headers. The broker checks them when it accepts the message, and the bridge reads them again for its request, because a
// stored message may be older than a check. Pure.
// Source: Apple, "Sending notification requests to APNs", "Starting and updating Live Activities with ActivityKit push
// notifications".

package import MartletBase

/// Kinds of notifications (`apns-push-type`).
package enum ApplePushType: String, Sendable, CaseIterable {
    /// The user sees or hears something.
    case alert
    /// The app is woken, and the user notices nothing.
    case background
    case complication
    case controls
    case fileprovider
    case liveactivity
    case location
    case mdm
    case pushtotalk
    case voip
    case widgets

    /// The kind that a topic names behind the bundle ID; nil: the topic names none.
    package init?(ofTopic topic: String) {
        let named = Self.allCases.first {
            !$0.topicSuffix.isEmpty && topic.hasSuffix($0.topicSuffix)
        }
        guard let named else { return nil }
        self = named
    }

    /// What the topic has behind the bundle ID; empty: nothing.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .complication: ".complication"
        case .controls: ".push-type.controls"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        }
    }
}

/// The sender's options for Apple's push service.
package struct AppleSending: Sendable, Hashable {
    /// Keys of the options, in lower case.
    package enum Key {
        package static let pushType = "apns-push-type"
        package static let topic = "apns-topic"
        package static let identifier = "apns-id"
        /// Only for 1. The block's own priority says 5 and 10.
        package static let priority = "apns-priority"
        package static let activityToken = "live_activity_token"
    }

    /// nil: the kind follows from the payload.
    package private(set) var pushType: ApplePushType?
    /// nil: the topic follows from the app's bundle ID.
    package private(set) var topic: String?
    /// A UUID; nil: the bridge makes one.
    package private(set) var identifier: String?
    /// `apns-priority: 1`: less urgent than 5, by which the device saves most energy.
    package private(set) var isOfLowestPriority = false
    /// The token of a Live Activity in hexadecimal digits, which takes the place of the device's token.
    package private(set) var activityToken: String?

    /// The kind of the notification without a look at the payload and the bundle ID.
    package var namedType: ApplePushType? { activityToken == nil ? pushType : .liveactivity }

    /// - Throws: `INVALID_ARGUMENT` that names the field, for an option that Apple would refuse, and for options that
    ///   contradict each other.
    package init(_ options: [Message.DataEntry]) throws(MartletError) {
        for option in options { try take(option) }
        if let pushType, activityToken != nil, pushType != .liveactivity {
            throw Self.refusal(
                "A live_activity_token goes with apns-push-type liveactivity.", Key.pushType)
        }
        let ofTopic = topic.flatMap { ApplePushType(ofTopic: $0) }
        guard activityToken != nil || (pushType ?? ofTopic) != .liveactivity else {
            throw Self.refusal(
                "apns-push-type liveactivity needs live_activity_token, the token of the activity.",
                Key.activityToken)
        }
        if let type = namedType, let topic {
            guard topic.hasSuffix(type.topicSuffix) else {
                throw Self.refusal(
                    "The topic of apns-push-type \(type) ends in \(type.topicSuffix).", Key.topic)
            }
            // One of device management is Apple's own.
            if let ofTopic, ofTopic != type, type != .mdm {
                throw Self.refusal(
                    "The topic is that of apns-push-type \(ofTopic), not of \(type).", Key.topic)
            }
        }
        // The topic of device management is in the certificate, and no bundle ID tells it.
        guard pushType != .mdm || topic != nil else {
            throw Self.refusal("apns-push-type mdm needs apns-topic.", Key.topic)
        }
        guard namedType != .liveactivity || !isOfLowestPriority else {
            throw Self.refusal("The priority of a Live Activity is 10 or 5.", Key.priority)
        }
    }

    private mutating func take(_ option: Message.DataEntry) throws(MartletError) {
        let (key, value) = (option.key.lowercased(), option.value)
        switch key {
        case Key.pushType:
            guard let type = ApplePushType(rawValue: value) else {
                let all = ApplePushType.allCases.map(\.rawValue).joined(separator: ", ")
                throw Self.refusal("apns-push-type is one of \(all).", key)
            }
            pushType = type
        case Key.topic:
            guard !value.isEmpty, HTTPFieldText.isValue(value) else {
                throw Self.refusal(HTTPFieldText.valueFault(of: key), key)
            }
            topic = value
        case Key.identifier:
            guard Self.isUUID(value) else {
                throw Self.refusal(
                    "apns-id is a UUID, such as 123e4567-e89b-42d3-a456-426614174000.", key)
            }
            identifier = value
        case Key.priority:
            guard value == "1" else {
                throw Self.refusal(
                    "apns-priority is 1 here; the block's priority says 5 or 10.", key)
            }
            isOfLowestPriority = true
        case "apns-expiration", "apns-collapse-id":
            throw Self.refusal("\(key) has a field of its own in the block.", key)
        case Key.activityToken:
            let isToken =
                value.utf8.count.isMultiple(of: 2)
                && (1...2 * Limits.apnsTokenBytesMax).contains(value.utf8.count)
                && value.utf8.allSatisfy(Self.isHexadecimal)
            guard isToken else {
                throw Self.refusal(
                    "live_activity_token has two hexadecimal digits for each byte, at most "
                        + "\(2 * Limits.apnsTokenBytesMax).", key)
            }
            activityToken = value
        default:
            guard !key.hasPrefix("apns-") || HTTPFieldText.isValue(value) else {
                throw Self.refusal(HTTPFieldText.valueFault(of: key), key)
            }
        }
    }

    /// 8, 4, 4, 4 and 12 hexadecimal digits with hyphens between.
    private static func isUUID(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        return parts.map(\.count) == [8, 4, 4, 4, 12] && parts.joined().allSatisfy(isHexadecimal)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }

    /// The field of an option, as a sender of v1 writes it.
    private static func refusal(_ message: String, _ key: String) -> MartletError {
        let place = key == Key.activityToken ? "message.apns" : "message.apns.headers"
        return Message.refusal(message, "\(place).\(key)")
    }
}
