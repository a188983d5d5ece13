// SPDX-License-Identifier: Apache-2.0
//
// Results for the instances that a sender named by token or by group, shared by the embedding interface and the
// client library. Rests on `GroupAccepted`.

public import MartletBase

/// Results for the members of a group, or for the tokens among several targets. For a scheduled or deferred
/// message, the results describe the tokens and members at the time of acceptance. For a scheduled message to a group
/// the results are empty, because the broker reads the members when it sends the message.
public struct TokenResults: Sendable, Hashable {
    public struct Failure: Sendable, Hashable {
        public var token: String
        /// Index among the targets; nil for a member of a group.
        public var index: Int?
        /// Reason: `UNREGISTERED`, `QUOTA_EXCEEDED`, `SENDER_ID_MISMATCH`, or `INVALID_ARGUMENT` for a text that is
        /// not a token and for an instance of another app than the message's restricted package name.
        public var word: ErrorWord

        public init(token: String, index: Int?, word: ErrorWord) {
            self.token = token
            self.index = index
            self.word = word
        }
    }

    /// Members or tokens that the message was accepted for.
    public var successCount: Int
    public var failures: [Failure]

    public init(successCount: Int, failures: [Failure]) {
        self.successCount = successCount
        self.failures = failures
    }

    public init(_ answer: GroupAccepted) {
        self.init(
            successCount: Int(answer.successes),
            failures: answer.failures.map {
                Failure(token: $0.token, index: nil, word: $0.word)
            })
    }

    /// - Parameter target: the target of the request, which has the tokens' texts.
    public init(_ answer: MulticastResult, of target: MessageTarget) {
        self.init(
            successCount: Int(answer.successes),
            failures: answer.failures.map { failure in
                let index = Int(failure.index)
                return Failure(token: target.text(at: index), index: index, word: failure.word)
            })
    }
}

extension MessageTarget {
    /// Text of the target at `index` of `several`; empty if there is no such target.
    public func text(at index: Int) -> String {
        guard case .several(let targets) = self, targets.indices.contains(index) else { return "" }
        return targets[index].text
    }
}
