// SPDX-License-Identifier: Apache-2.0
//
// The JSON of an accepted message, of a cancellation, and of the results for single tokens (MSG-6, MSG-10, TOP-4).
// Property names are the names in the JSON output. Pure.

package import Martlet

package struct SendAnswer: Encodable {
    /// nil after a mere validation.
    package var messageID: String?
    package var recipients: UInt64
    package var rateLimited: UInt64
    package var inactive: UInt64
    /// FAN-1: place among the deferred messages; nil: not deferred.
    package var deferredPlace: Int?
    /// GRP-5: members of the group, or tokens among several targets, for which the message was accepted. nil for any
    /// other target, as `failures` is.
    package var successes: Int?
    package var failures: [TokenFailure]?
    /// After a mere validation in the console, the recipients with a connection; else nil.
    package var connected: UInt64?

    package init(_ receipt: SendReceipt) {
        messageID = receipt.messageID
        recipients = receipt.recipientCount
        rateLimited = receipt.rateLimitedCount
        inactive = receipt.inactiveCount
        deferredPlace = receipt.deferredPlace
        successes = receipt.tokens?.successCount
        failures = receipt.tokens?.failures.map {
            TokenFailure(token: $0.token, error: $0.word.name)
        }
    }
}

/// A token for which a request failed, in the JSON of commands.
package struct TokenFailure: Encodable, Sendable {
    package var token: String
    package var error: String

    package init(token: String, error: String) {
        self.token = token
        self.error = error
    }
}

/// The results for the tokens of a request (TOP-4, REG-3).
package struct TokensAnswer: Encodable {
    package var successes = 0
    package var failures: [TokenFailure] = []

    package init() {}

    package init(_ summary: TopicChangeSummary, tokens: [String]) {
        successes = summary.successCount
        failures = summary.failures.map {
            TokenFailure(
                token: tokens.indices.contains($0.index) ? tokens[$0.index] : "",
                error: $0.word.name)
        }
    }
}

package struct CancelAnswer: Encodable {
    package var messageID: String
    package var wasScheduled: Bool
    package var delivered: UInt64

    package init(messageID: String, wasScheduled: Bool, delivered: UInt64) {
        self.messageID = messageID
        self.wasScheduled = wasScheduled
        self.delivered = delivered
    }
}
