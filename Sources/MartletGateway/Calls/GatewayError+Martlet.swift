// SPDX-License-Identifier: Apache-2.0
//
// Errors of the broker, in the words and sentences known to callers of v1. The broker's own sentence contains the
// remedy, and goes along as the description of the field. Rests on MartletError.

public import Martlet

extension GatewayError {
    /// Translates the broker's error for a call that sends a message.
    public init(_ error: MartletError) {
        let delay = error.retryDelayMilliseconds
        switch error.word {
        case .invalidArgument: self = Self.invalidArgument(error)
        case .unregistered:
            self.init(
                .notFound, "Requested entity was not found.", code: .unregistered, cause: error)
        case .senderIDMismatch:
            self.init(
                .permissionDenied, "SenderId mismatch", code: .senderIDMismatch, cause: error)
        case .quotaExceeded, .resourceExhausted, .tooManyTopics:
            let isTopic = error.field == "topic"
            self.init(
                .resourceExhausted, isTopic ? "Topic quota exceeded." : error.message,
                code: .quotaExceeded,
                quota: [QuotaViolation(Self.subject(of: error), error.message)],
                retryDelayMilliseconds: delay, cause: error)
        case .unavailable, .replaced:
            // A retry delay always goes along, because some callers never come back without a delay.
            self.init(
                .unavailable, error.message, code: .unavailable,
                retryDelayMilliseconds: delay ?? 1000, cause: error)
        case .deadlineExceeded:
            self.init(
                .deadlineExceeded, error.message, retryDelayMilliseconds: delay, cause: error)
        case .internal, .protocolViolation:
            self.init(
                .internal, "Internal error encountered.", code: .internal, cause: error)
        case .thirdPartyAuthError:
            self.init(
                .unauthenticated, error.message, code: .thirdPartyAuthError, cause: error)
        case .unauthenticated: self.init(.unauthenticated, error.message, cause: error)
        case .permissionDenied: self.init(.permissionDenied, error.message, cause: error)
        case .notFound: self.init(.notFound, error.message, cause: error)
        case .alreadyExists: self.init(.alreadyExists, error.message, cause: error)
        }
    }

    private static func subject(of error: MartletError) -> String {
        switch error.field {
        case "token": "device"
        case "topic": "topic"
        default: "project"
        }
    }

    private static func invalidArgument(_ error: MartletError) -> GatewayError {
        var result: GatewayError
        switch error.field {
        case "token":
            result = .invalid(
                "The registration token is not a valid FCM registration token",
                field: "message.token", error.message)
        case "topic":
            result = .invalid(
                "Topic name contains invalid characters.", field: "message.topic",
                error.message)
        case "condition":
            let place = error.byteOffset.map { " At byte \($0)." } ?? ""
            result = .invalid(
                "Request contains an invalid argument.", field: "message.condition",
                "Invalid condition expression provided. " + error.message + place)
        case "message", "message.android", "message.apns", "message.webpush":
            // MSG-3: the broker refuses a whole message or block only for its size.
            result = GatewayError(
                .invalidArgument, "Message is too large. " + error.message,
                code: .invalidArgument, violations: [])
        case let field:
            result = .invalid(error.message, field: Self.path(of: field))
        }
        result.cause = error
        return result
    }

    /// Path in a v1 request for a field of the broker.
    private static func path(of field: String) -> String {
        switch field {
        case "": "message"
        case "time_to_live": "message.android.ttl"
        case "collapse_key", "restricted_package_name", "priority": "message.android." + field
        default: field
        }
    }
}
