// SPDX-License-Identifier: Apache-2.0
//
// A refusal in the form that SDKs read (GW-6): a canonical status, the messaging service's error code, the field at
// fault, and the delay before a retry. Rests on JSONValue.

public import Martlet

/// The refusal of a caller's request.
public struct GatewayError: Error, Sendable, Hashable {
    /// Canonical statuses of an answer. SDKs know no other names.
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

        /// HTTP status of an answer with the status, 400 to 504.
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

    /// Error codes of the messaging service: `FcmError.errorCode`.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        case invalidArgument = "INVALID_ARGUMENT"
        case unregistered = "UNREGISTERED"
        case senderIDMismatch = "SENDER_ID_MISMATCH"
        case quotaExceeded = "QUOTA_EXCEEDED"
        case unavailable = "UNAVAILABLE"
        case `internal` = "INTERNAL"
        case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    }

    /// A field at fault.
    public struct Violation: Sendable, Hashable {
        /// Path of the field in the request: `message.token`.
        public var field: String
        /// A sentence about the fault.
        public var description: String

        /// Names a field at fault.
        /// - Parameter field: path of the field in the request, such as `message.token`.
        public init(_ field: String, _ description: String) {
            self.field = field
            self.description = description
        }
    }

    /// An exhausted quota.
    public struct QuotaViolation: Sendable, Hashable {
        /// Owner of the quota: `device`, `topic` or `project`.
        public var subject: String
        /// A sentence about the exhausted quota.
        public var description: String

        /// Names an exhausted quota.
        /// - Parameter subject: `device`, `topic` or `project`.
        public init(_ subject: String, _ description: String) {
            self.subject = subject
            self.description = description
        }
    }

    /// Canonical status, `error.status` in the answer.
    public var status: Status
    /// HTTP status of the answer; differs from the HTTP status of `status` for 405, 413 and 415.
    public var httpStatus: Int
    /// Error code of the messaging service; nil: the answer has no `FcmError` detail.
    public var code: Code?
    /// A sentence for people, `error.message` in the answer.
    public var message: String
    /// Fields at fault. Empty: the answer's detail names no field. nil: the answer has no detail about fields.
    public var violations: [Violation]?
    /// Exhausted quotas; empty: the answer has no `QuotaFailure` detail.
    public var quota: [QuotaViolation]
    /// Delay before a retry, in milliseconds.
    public var retryDelayMilliseconds: UInt32?
    /// The broker's error, from which legacy forms of the refusal are made; nil where the gateway itself refuses.
    public var cause: MartletError?
    /// Whether the broker, which refused, has counted the refusal (OPS-10). The gateway counts its own.
    package var isCounted: Bool

    /// Makes a refusal.
    /// - Parameters:
    ///   - status: canonical status.
    ///   - message: a sentence for people.
    ///   - code: error code of the messaging service.
    ///   - httpStatus: nil: the HTTP status of `status`.
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
        isCounted = cause != nil
    }

    /// Refuses a request that breaks a rule: `FcmError` INVALID_ARGUMENT with the field at fault.
    public static func invalid(
        _ message: String, field: String, _ description: String? = nil
    ) -> GatewayError {
        GatewayError(
            .invalidArgument, message, code: .invalidArgument,
            violations: [Violation(field, description ?? message)])
    }

    /// Retry delay in whole seconds, at least 1; rounded up, because an earlier caller is refused again.
    public var retryAfterSeconds: Int? {
        retryDelayMilliseconds.map { max(1, (Int($0) + 999) / 1000) }
    }

    /// `Retry-After`, for status 401 the scheme of the required credential, and for 415 the coding that is unpacked.
    public var headers: [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        if let seconds = retryAfterSeconds { headers.append(("retry-after", String(seconds))) }
        if httpStatus == 401 {
            // Some SDKs fetch a new token only after `invalid_token`. Source: RFC 6750 §3.1.
            let reason = cause == nil ? "" : ", error=\"invalid_token\""
            headers.append(("www-authenticate", "Bearer realm=\"martlet\"" + reason))
        }
        if httpStatus == 415 { headers.append(("accept-encoding", "gzip")) }
        return headers
    }

    /// The refusal as JSON envelope of v1.
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
            var detail: JSONObject = [
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
        var error: JSONObject = [
            "code": .integer(Int64(httpStatus)), "message": .string(message),
            "status": .string(status.rawValue),
        ]
        if !details.isEmpty { error["details"] = .array(details) }
        return .json(
            .object(["error": .object(error)]), status: httpStatus, headers: headers)
    }
}
