// SPDX-License-Identifier: Apache-2.0
//
// Refusals as SDKs read them (GW-6). Rests on GatewayError.

import Martlet
import MartletGateway
import Testing

@Suite("Gateway: refusals")
struct EnvelopeTests {
    struct Expected: Sendable {
        var error: MartletError
        var httpStatus: Int
        var status: String
        var code: String?
        var message: String
        var field: String?
    }

    static let cases = [
        Expected(
            error: MartletError(.invalidArgument, "no", field: "token"), httpStatus: 400,
            status: "INVALID_ARGUMENT", code: "INVALID_ARGUMENT",
            message: "The registration token is not a valid FCM registration token",
            field: "message.token"),
        Expected(
            error: MartletError(.invalidArgument, "no", field: "topic"), httpStatus: 400,
            status: "INVALID_ARGUMENT", code: "INVALID_ARGUMENT",
            message: "Topic name contains invalid characters.", field: "message.topic"),
        Expected(
            error: MartletError(.invalidArgument, "no", field: "condition", byteOffset: 7),
            httpStatus: 400, status: "INVALID_ARGUMENT", code: "INVALID_ARGUMENT",
            message: "Request contains an invalid argument.", field: "message.condition"),
        Expected(
            error: MartletError(.unregistered, "gone", field: "token"), httpStatus: 404,
            status: "NOT_FOUND", code: "UNREGISTERED",
            message: "Requested entity was not found."),
        Expected(
            error: MartletError(.senderIDMismatch, "foreign", field: "token"), httpStatus: 403,
            status: "PERMISSION_DENIED", code: "SENDER_ID_MISMATCH", message: "SenderId mismatch"),
        Expected(
            error: MartletError(.quotaExceeded, "slower", field: "token"), httpStatus: 429,
            status: "RESOURCE_EXHAUSTED", code: "QUOTA_EXCEEDED", message: "slower"),
        Expected(
            error: MartletError(.resourceExhausted, "much", field: "topic"), httpStatus: 429,
            status: "RESOURCE_EXHAUSTED", code: "QUOTA_EXCEEDED",
            message: "Topic quota exceeded."),
        Expected(
            error: MartletError(.unavailable, "later"), httpStatus: 503, status: "UNAVAILABLE",
            code: "UNAVAILABLE", message: "later"),
        Expected(
            error: MartletError(.internal, "a secret place"), httpStatus: 500,
            status: "INTERNAL", code: "INTERNAL", message: "Internal error encountered."),
    ]

    @Test("GW-6 each refusal has its status, its code and its text", arguments: cases)
    func envelopes(expected: Expected) throws {
        let answer = GatewayError(expected.error).envelope
        #expect(answer.status == expected.httpStatus)
        let text = String(decoding: answer.body, as: UTF8.self)
        let error = try #require(try JSONValue(parsing: text)["error"])
        #expect(error["code"] == .integer(Int64(expected.httpStatus)))
        #expect(error["status"] == .string(expected.status))
        #expect(error["message"] == .string(expected.message))
        guard case .array(let details)? = error["details"] else {
            Issue.record("no details in \(text)")
            return
        }
        let fcm = details.first {
            $0["@type"] == .string("type.googleapis.com/google.firebase.fcm.v1.FcmError")
        }
        #expect(fcm?["errorCode"] == expected.code.map { .string($0) })
        let fields = details.compactMap { detail -> JSONValue? in
            guard case .array(let violations)? = detail["fieldViolations"] else { return nil }
            return violations.first?["field"]
        }
        #expect(fields == (expected.field.map { [.string($0)] } ?? []))
    }

    @Test(
        "GW-6 Retry-After is the refusal's own delay, in whole seconds rounded up",
        arguments: [(0 as UInt32, "1"), (1, "1"), (1000, "1"), (1001, "2"), (59_999, "60")])
    func retryAfter(milliseconds: UInt32, seconds: String) {
        for word in [ErrorWord.quotaExceeded, .resourceExhausted, .unavailable] {
            let error = MartletError(word, "later", retryDelayMilliseconds: milliseconds)
            let headers = GatewayError(error).envelope.headers
            #expect(headers.first { $0.name == "retry-after" }?.value == seconds)
        }
    }

    @Test("GW-6 who is not told when to come back has no Retry-After, but for 503")
    func noRetryAfter() {
        let quota = GatewayError(MartletError(.quotaExceeded, "never")).envelope.headers
        #expect(!quota.contains { $0.name == "retry-after" })
        let unavailable = GatewayError(MartletError(.unavailable, "full")).envelope.headers
        #expect(unavailable.contains { $0.name == "retry-after" })
    }

    @Test("GW-6 the status is always one that readers know", arguments: ErrorWord.allCases)
    func canonical(word: ErrorWord) {
        let known: Set<String> = [
            "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED",
            "PERMISSION_DENIED", "NOT_FOUND", "CONFLICT", "ABORTED", "ALREADY_EXISTS",
            "RESOURCE_EXHAUSTED", "CANCELLED", "DATA_LOSS", "UNKNOWN", "INTERNAL", "UNAVAILABLE",
            "DEADLINE_EXCEEDED",
        ]
        #expect(known.contains(GatewayError(MartletError(word, "x")).status.rawValue))
    }
}
