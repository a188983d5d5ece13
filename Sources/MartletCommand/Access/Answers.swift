// SPDX-License-Identifier: Apache-2.0
//
// The answers that commands print, from a broker over the wire or from a data folder opened in this process. Property
// names are the names in the JSON output. Pure.

import Martlet

struct ProjectAnswer: Encodable, Sendable {
    var project: String
    var senderID: UInt64
    var conditionTopicsMax: Int
    var instances: UInt64
    var topics: UInt64
    var weight: Int
    /// `defer` or `refuse`.
    var onOverload: String
}

struct NewProjectAnswer: Encodable, Sendable {
    var project: String
    var senderID: UInt64
    var conditionTopicsMax: Int
    var instances: UInt64
    var topics: UInt64
    var weight: Int
    /// `defer` or `refuse`.
    var onOverload: String
    /// REG-7: lets devices register. No later answer has it.
    var registrationKey: String

    init(_ new: ProjectAnswer, registrationKey: String) {
        project = new.project
        senderID = new.senderID
        conditionTopicsMax = new.conditionTopicsMax
        instances = new.instances
        topics = new.topics
        weight = new.weight
        onOverload = new.onOverload
        self.registrationKey = registrationKey
    }
}

struct NewKeyAnswer: Encodable, Sendable {
    var project: String
    var keyID: String
    /// The secret text of the key. No later answer has it.
    var key: String
}

struct KeyAnswer: Encodable, Sendable {
    var keyID: String
    var name: String
    /// Instant of creation, in ISO 8601.
    var created: String
    var revoked: Bool
}

struct ServiceAccountAnswer: Encodable, Sendable {
    var keyID: String
    var name: String
    var clientEmail: String
    /// Instant of creation, in ISO 8601.
    var created: String
    var revoked: Bool
}

struct SendAnswer: Encodable, Sendable {
    /// nil after a mere validation.
    var messageID: String?
    var recipients: UInt64
    var rateLimited: UInt64
    var inactive: UInt64
    /// FAN-1: place among the deferred messages; nil: not deferred.
    var deferredPlace: UInt64?
    /// GRP-5: members of the group, or tokens among several targets, for which the message was accepted. nil for any
    /// other target, as `failures` is.
    var successes: Int?
    var failures: [TokenFailure]?

    struct TokenFailure: Encodable, Sendable {
        var token: String
        var error: String
    }
}

/// The results for the tokens of a request (TOP-4, REG-3).
struct TokensAnswer: Encodable, Sendable {
    var successes: Int
    var failures: [SendAnswer.TokenFailure]

    init(successes: Int, failures: [SendAnswer.TokenFailure]) {
        self.successes = successes
        self.failures = failures
    }

    /// - Parameter failures: indices into `tokens`, each with the reason.
    init(successes: Int, failures: [(index: Int, word: ErrorWord)], tokens: [String]) {
        self.init(
            successes: successes,
            failures: failures.map {
                .init(
                    token: tokens.indices.contains($0.index) ? tokens[$0.index] : "",
                    error: $0.word.name)
            })
    }
}

struct GroupAnswer: Encodable, Sendable {
    var name: String
    var key: String
    /// Tokens of the members. Empty: the group has ended.
    var tokens: [String]
}

struct GroupEntryAnswer: Encodable, Sendable {
    var name: String
    var key: String
    var members: Int
}

struct CancelAnswer: Encodable, Sendable {
    var messageID: String
    var wasScheduled: Bool
    var delivered: UInt64
}

/// RCP-2: a receipt.
struct ReceiptAnswer: Encodable, Sendable {
    var messageID: String
    var token: String
    var kind: String
    /// Milliseconds since 1970.
    var instant: Int64
}

/// UPS-1: a message of a device.
struct UpstreamAnswer: Encodable, Sendable {
    var number: UInt64
    var token: String
    var app: String
    var messageID: String
    /// Instant of acceptance, like `expires` in milliseconds since 1970.
    var accepted: Int64
    var expires: Int64
    var data: [String: String]
}

struct TopicAnswer: Encodable, Sendable {
    var topic: String
    var subscribers: UInt64
}

struct QuotaAnswer: Encodable, Sendable {
    var quota: String
    var limit: UInt64
    var remaining: UInt64
    /// Milliseconds until the quota is full again; nil if the time cannot be known.
    var untilFullMilliseconds: UInt64?
}

struct AudienceAnswer: Encodable, Sendable {
    struct App: Encodable, Sendable {
        var app: String
        var platform: String
        var count: UInt64
    }

    var condition: String
    var total: UInt64
    var android: UInt64
    var apple: UInt64
    var web: UInt64
    var apps: [App]
}

struct ExplanationAnswer: Encodable, Sendable {
    struct Part: Encodable, Sendable {
        var depth: Int
        var start: Int
        var end: Int
        var text: String
        var count: UInt64
    }

    struct Advice: Encodable, Sendable {
        var byteOffset: Int
        var message: String
    }

    var condition: String
    /// The condition with all parentheses that show how it is read.
    var readAs: String
    var parts: [Part]
    var bytecode: [String]
    var advice: [Advice]
}

/// A page of a list. `next` is the cursor for the next page; nil on the last page.
struct AnswerPage<Entry: Sendable>: Sendable {
    var entries: [Entry]
    var next: String?
}

extension SendAnswer {
    /// Adds the results for the tokens that the target names, if any.
    func with(_ tokens: TokenResults?) -> SendAnswer {
        var answer = self
        answer.successes = tokens?.successCount
        answer.failures = tokens?.failures.map {
            TokenFailure(token: $0.token, error: $0.word.name)
        }
        return answer
    }
}

extension String {
    /// The bytes from `start` to `end` of a condition, as text.
    func slice(_ start: Int, _ end: Int) -> String {
        let bytes = Array(utf8)
        let low = max(0, min(start, bytes.count))
        return String(decoding: bytes[low..<max(low, min(end, bytes.count))], as: UTF8.self)
    }
}
