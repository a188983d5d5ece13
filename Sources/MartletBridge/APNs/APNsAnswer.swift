// SPDX-License-Identifier: Apache-2.0
//
// What an answer from Apple's push service means. Pure.
// Source: Apple, "Handling notification responses from APNs".

import Martlet

/// An answer from Apple's push service.
package struct APNsAnswer: Sendable, Hashable {
    /// HTTP status.
    var status: Int
    /// The body's `reason`; empty without a body.
    var reason: String
    /// Seconds in the header `retry-after`, if there is one.
    var retryAfterSeconds: Int64?

    init(status: Int, reason: String = "", retryAfterSeconds: Int64? = nil) {
        (self.status, self.reason) = (status, reason)
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// - Parameter body: the answer's JSON.
    package init(status: Int, body: [UInt8], retryAfter: String?) {
        self.status = status
        retryAfterSeconds = retryAfter.flatMap { Int64($0) }
        reason = ""
        let text = String(decoding: body, as: UTF8.self)
        guard case .object(let members)? = try? JSONValue(parsing: text),
            case .string(let word)? = members["reason"],
            (1...Limits.refusalReasonBytesMax).contains(word.utf8.count),
            word.utf8.allSatisfy({ TopicName.isAllowed($0) })
        else { return }
        reason = word
    }

    /// The reason in reports and in the log.
    var word: String { reason.isEmpty ? "status \(status)" : reason }

    /// Whether Apple finds the provider token too old.
    var isTokenExpired: Bool { status == 403 && reason == "ExpiredProviderToken" }

    /// What becomes of the message.
    package var verdict: HandOverAnswer {
        switch (status, reason) {
        case (200, _): .taken
        case (410, _), (400, "BadDeviceToken"): .gone(reason: word)
        case (403, _): .keyRefused(reason: word)
        case (429, "TooManyProviderTokenUpdates"), (500..., _):
            .later(reason: word, afterSeconds: retryAfterSeconds)
        case (429, _): .laterForInstance(reason: word, afterSeconds: retryAfterSeconds)
        case (408, _): .later(reason: word, afterSeconds: retryAfterSeconds)
        // Apple closes idle connections with this reason, whatever the status.
        case (_, "IdleTimeout"): .later(reason: word, afterSeconds: nil)
        default: .refused(reason: word)
        }
    }
}
