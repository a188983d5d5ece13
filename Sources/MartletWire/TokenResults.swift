// SPDX-License-Identifier: Apache-2.0
//
// What a sender is told of the instances that it named one by one, shared by the embedding interface and
// the client library. Rests on `GroupFrames`.

public import MartletBase

/// What became of the members of a group, or of the tokens among several targets. Of a message that is
/// scheduled or deferred: of the tokens as they were when it was accepted, and of no member, for those
/// are known when it is sent.
public struct TokenResults: Sendable, Hashable {
    public struct Failure: Sendable, Hashable {
        public var token: String
        /// Its place among the targets; nil for a member of a group.
        public var index: Int?
        /// `UNREGISTERED`, `QUOTA_EXCEEDED`, `INVALID_ARGUMENT` (no token, or of another app than the
        /// message is restricted to), `SENDER_ID_MISMATCH`.
        public var word: ErrorWord

        public init(token: String, index: Int?, word: ErrorWord) {
            self.token = token
            self.index = index
            self.word = word
        }
    }

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

    /// - Parameter target: of the request.
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
    /// The text of one of several; empty where there is none.
    public func text(at index: Int) -> String {
        guard case .several(let targets) = self, targets.indices.contains(index) else { return "" }
        return targets[index].text
    }
}
