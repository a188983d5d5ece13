// SPDX-License-Identifier: Apache-2.0
//
// The error words of a `nack`, and how the broker's errors translate into them. Source: Firebase Cloud Messaging documentation,
// "Downstream message error response codes". Rests on MartletGateway's words of the legacy HTTP interface.

import Martlet
import MartletGateway

/// Error words of a `nack`.
enum LegacyError: String, Sendable, CaseIterable {
    case badAcknowledgement = "BAD_ACK"
    case badRegistration = "BAD_REGISTRATION"
    case connectionDraining = "CONNECTION_DRAINING"
    case deviceMessageRateExceeded = "DEVICE_MESSAGE_RATE_EXCEEDED"
    case deviceUnregistered = "DEVICE_UNREGISTERED"
    case internalServerError = "INTERNAL_SERVER_ERROR"
    case invalidJSON = "INVALID_JSON"
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    case serviceUnavailable = "SERVICE_UNAVAILABLE"
    case topicsMessageRateExceeded = "TOPICS_MESSAGE_RATE_EXCEEDED"
}

/// A refusal of a message that has an ID.
struct Refusal: Error, Sendable, Hashable {
    var error: LegacyError
    /// What went wrong, for people.
    var description: String

    init(_ error: LegacyError, _ description: String) {
        self.error = error
        self.description = description
    }

    /// Refuses a field, in FCM's words.
    static func invalid(_ kind: String, _ text: String) -> Refusal {
        Refusal(.invalidJSON, "InvalidJson : \(kind) : \(text)")
    }

    /// The refusal by the broker.
    init(_ error: MartletError) {
        var text = error.message
        if let place = error.byteOffset { text += " At byte \(place)." }
        if let delay = error.retryDelayMilliseconds { text += " Send again after \(delay) ms." }
        self =
            switch error.legacyWord {
            case "InvalidRegistration": Refusal(.badRegistration, text)
            case "NotRegistered": Refusal(.deviceUnregistered, text)
            case "MismatchSenderId": Refusal(.senderIDMismatch, text)
            case "DeviceMessageRateExceeded": Refusal(.deviceMessageRateExceeded, text)
            case "TopicsMessageRateExceeded": Refusal(.topicsMessageRateExceeded, text)
            case "InternalServerError": Refusal(.internalServerError, text)
            case "InvalidTtl": .invalid("INVALID_TTL", text)
            case "MessageTooBig": .invalid("MESSAGE_TOO_BIG", text)
            case "InvalidDataKey": .invalid("INVALID_DATA_KEY", text)
            case "InvalidPackageName": .invalid("INVALID_PACKAGE_NAME", text)
            case "InvalidParameters": .invalid("INVALID_PARAMETERS", text)
            default: Refusal(.serviceUnavailable, text)
            }
    }

    /// Translates what LegacyRequest says of a field's type or value.
    init(_ error: GatewayError) {
        // A wrong type has no error code of its own.
        let kind = error.code == nil ? "JSON_TYPE_ERROR" : "JSON_PARSING_ERROR"
        self = .invalid(kind, error.message)
    }
}
