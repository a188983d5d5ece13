// SPDX-License-Identifier: Apache-2.0
//
// A refusal in the form that Web Push libraries read. The status decides over the subscription: libraries drop it at 404
// and 410, and some at anything from 400 on. So if the fault is ours, we answer 503 and nothing else. Rests on GatewayAnswer.

import Martlet
import MartletGateway

/// The refusal of a sender's request.
struct PushError: AnsweredError {
    /// HTTP status.
    var status: Int
    /// The reason's number. Source: the error table of autopush, which libraries know.
    var number: Int
    var message: String
    var retryAfterSeconds: Int?
    /// Whether the broker refused, and has counted the refusal.
    private var isCounted: Bool

    init(
        _ status: Int, _ number: Int, _ message: String, retryAfterSeconds: Int? = nil,
        isCounted: Bool = false
    ) {
        self.isCounted = isCounted
        self.status = status
        self.number = number
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    static let unknown = PushError(404, 102, "There is no such endpoint.")
    static let unregistered = PushError(410, 106, "The subscription was ended.")
    static let tooLong = PushError(
        413, 104, "A message has at most \(Limits.opaqueBytesMax) bytes.")

    /// The broker's refusal of a message.
    init(_ error: MartletError) {
        let seconds = error.retryDelayMilliseconds.map { max(1, (Int($0) + 999) / 1000) }
        switch error.word {
        case .unregistered, .notFound: self = .unregistered
        case .quotaExceeded, .resourceExhausted, .tooManyTopics:
            self.init(429, 201, error.message, retryAfterSeconds: seconds ?? 60)
        case .invalidArgument: self.init(400, 110, error.message)
        case .unauthenticated, .permissionDenied, .senderIDMismatch, .alreadyExists,
            .unavailable, .internal, .protocolViolation, .replaced, .deadlineExceeded,
            .thirdPartyAuthError:
            self.init(
                503, 202, "The push service cannot take the message now.",
                retryAfterSeconds: seconds ?? Self.retrySeconds)
        }
        isCounted = true
    }

    /// A refusal by the gateway.
    init(_ error: GatewayError) {
        if let cause = error.cause {
            self.init(cause)
        } else if error.httpStatus == 413 {
            self = .tooLong
        } else if error.httpStatus == 429 || error.httpStatus >= 500 {
            self.init(
                error.httpStatus == 429 ? 429 : 503, 202, error.message,
                retryAfterSeconds: error.retryAfterSeconds ?? Self.retrySeconds)
        } else {
            self.init(error.httpStatus, 110, error.message)
        }
    }

    var countedCause: ErrorWord? {
        guard !isCounted else { return nil }
        return switch status {
        case 401: .unauthenticated
        case 403: .permissionDenied
        case 404: .notFound
        case 410: .unregistered
        case 429: .resourceExhausted
        case 500...: .unavailable
        default: .invalidArgument
        }
    }

    /// Seconds after which a sender should try again, if we know nothing better.
    private static let retrySeconds = 120

    var answer: GatewayAnswer {
        var headers = CrossOrigin.headers
        if let retryAfterSeconds { headers.append(("retry-after", String(retryAfterSeconds))) }
        if status == 401 { headers.append(("www-authenticate", "vapid")) }
        if status == 410 { headers.append(("cache-control", "max-age=86400")) }
        return .json(
            .object([
                "code": .integer(Int64(status)), "errno": .integer(Int64(number)),
                "error": .string(Self.names[status] ?? "Error"), "message": .string(message),
                "more_info": .string("https://www.rfc-editor.org/rfc/rfc8030"),
            ]), status: status, headers: headers)
    }

    private static let names = [
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 410: "Gone",
        413: "Payload Too Large", 429: "Too Many Requests", 503: "Service Unavailable",
    ]
}

/// Answers scripts of other origins (CORS). The URL is the credential, so any origin may ask.
enum CrossOrigin {
    static let headers: [(name: String, value: String)] = [
        ("access-control-allow-origin", "*"),
        ("access-control-expose-headers", "location, ttl, retry-after, www-authenticate"),
    ]

    /// Answers whether a request may be made.
    static let answer = GatewayAnswer(
        headers: headers + [
            ("access-control-allow-methods", "POST, DELETE, GET, OPTIONS"),
            (
                "access-control-allow-headers",
                "authorization, content-encoding, content-type, crypto-key, encryption, prefer, topic, "
                    + "ttl, urgency"
            ),
            ("access-control-max-age", "3600"),
        ])
}
