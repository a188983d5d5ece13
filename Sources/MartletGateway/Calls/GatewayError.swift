// SPDX-License-Identifier: Apache-2.0
//
// A refusal as the SDKs read it (GW-6): a canonical status, the word of the messaging service, which
// field is at fault, when to try again. Rests on JSONValue.

public import Martlet

/// What is told to a caller whose request is refused.
public struct GatewayError: Error, Sendable, Hashable {
    /// The canonical states of an answer. Readers know these names and no others.
    public enum Status: String, Sendable, Hashable, CaseIterable {
        case invalidArgument = "INVALID_ARGUMENT"
        case unauthenticated = "UNAUTHENTICATED"
        case permissionDenied = "PERMISSION_DENIED"
        case notFound = "NOT_FOUND"
        case alreadyExists = "ALREADY_EXISTS"
        case resourceExhausted = "RESOURCE_EXHAUSTED"
        case unimplemented = "UNIMPLEMENTED"
        case unavailable = "UNAVAILABLE"
        case deadlineExceeded = "DEADLINE_EXCEEDED"
        case `internal` = "INTERNAL"

        public var httpStatus: Int {
            switch self {
            case .invalidArgument: 400
            case .unauthenticated: 401
            case .permissionDenied: 403
            case .notFound: 404
            case .alreadyExists: 409
            case .resourceExhausted: 429
            case .internal: 500
            case .unimplemented: 501
            case .unavailable: 503
            case .deadlineExceeded: 504
            }
        }
    }

    /// The words of the messaging service: `FcmError.errorCode`.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        case invalidArgument = "INVALID_ARGUMENT"
        case unregistered = "UNREGISTERED"
        case senderIDMismatch = "SENDER_ID_MISMATCH"
        case quotaExceeded = "QUOTA_EXCEEDED"
        case unavailable = "UNAVAILABLE"
        case `internal` = "INTERNAL"
        case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    }

    /// A field that is at fault.
    public struct Violation: Sendable, Hashable {
        /// As it is written in the request: `message.token`.
        public var field: String
        public var description: String

        public init(_ field: String, _ description: String) {
            self.field = field
            self.description = description
        }
    }

    /// A quota that is used up.
    public struct QuotaViolation: Sendable, Hashable {
        /// Whose: `device`, `topic`, `project`.
        public var subject: String
        public var description: String

        public init(_ subject: String, _ description: String) {
            self.subject = subject
            self.description = description
        }
    }

    public var status: Status
    /// Where it is not the status's own: 405, 413.
    public var httpStatus: Int
    public var code: Code?
    public var message: String
    /// nil: the answer says nothing of fields.
    public var violations: [Violation]?
    public var quota: [QuotaViolation]
    /// When to try again.
    public var retryDelayMilliseconds: UInt32?
    /// What a legacy form of this refusal is made from; nil where the gateway itself refuses.
    public var cause: MartletError?

    public init(
        _ status: Status, _ message: String, code: Code? = nil, violations: [Violation]? = nil,
        quota: [QuotaViolation] = [], retryDelayMilliseconds: UInt32? = nil,
        httpStatus: Int? = nil, cause: MartletError? = nil
    ) {
        self.status = status
        self.httpStatus = httpStatus ?? status.httpStatus
        self.code = code
        self.message = message
        self.violations = violations
        self.quota = quota
        self.retryDelayMilliseconds = retryDelayMilliseconds
        self.cause = cause
    }

    /// A request that breaks a rule, as `FcmError` INVALID_ARGUMENT with the field at fault.
    public static func invalid(
        _ message: String, field: String, _ description: String? = nil
    ) -> GatewayError {
        GatewayError(
            .invalidArgument, message, code: .invalidArgument,
            violations: [Violation(field, description ?? message)])
    }

    /// Whole seconds, rounded up: a caller that comes earlier is refused again.
    public var retryAfterSeconds: Int? {
        retryDelayMilliseconds.map { max(1, (Int($0) + 999) / 1000) }
    }

    /// `Retry-After`, and for 401 what to present.
    public var headers: [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        if let seconds = retryAfterSeconds { headers.append(("retry-after", String(seconds))) }
        if httpStatus == 401 {
            // Some SDKs get a new token only where this says that theirs is bad. Source: RFC 6750 §3.1.
            let reason = cause == nil ? "" : ", error=\"invalid_token\""
            headers.append(("www-authenticate", "Bearer realm=\"martlet\"" + reason))
        }
        return headers
    }

    /// The envelope of v1.
    public var envelope: GatewayAnswer {
        var details: [JSONValue] = []
        if let code {
            details.append(
                .object([
                    "@type": .string("type.googleapis.com/google.firebase.fcm.v1.FcmError"),
                    "errorCode": .string(code.rawValue),
                ]))
        }
        if let violations {
            var detail: [String: JSONValue] = [
                "@type": .string("type.googleapis.com/google.rpc.BadRequest")
            ]
            if !violations.isEmpty {
                detail["fieldViolations"] = .array(
                    violations.map {
                        .object([
                            "field": .string($0.field), "description": .string($0.description),
                        ])
                    })
            }
            details.append(.object(detail))
        }
        if !quota.isEmpty {
            details.append(
                .object([
                    "@type": .string("type.googleapis.com/google.rpc.QuotaFailure"),
                    "violations": .array(
                        quota.map {
                            .object([
                                "subject": .string($0.subject),
                                "description": .string($0.description),
                            ])
                        }),
                ]))
        }
        var error: [String: JSONValue] = [
            "code": .integer(Int64(httpStatus)), "message": .string(message),
            "status": .string(status.rawValue),
        ]
        if !details.isEmpty { error["details"] = .array(details) }
        return .json(
            .object(["error": .object(error)]), status: httpStatus, headers: headers)
    }
}
