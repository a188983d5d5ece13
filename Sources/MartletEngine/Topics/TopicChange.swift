// SPDX-License-Identifier: Apache-2.0
//
// The result of a topic request, and how far one has come that several transactions apply. Pure.

package import MartletBase

/// The result of a topic request, with an entry for each failed item (TOP-4).
package struct TopicChangeResult: Sendable, Hashable {
    /// An item of the request that failed.
    package struct Failure: Sendable, Hashable {
        /// Position of the item in the request, from 0.
        package var index: Int
        /// Reason for the failure.
        package var word: ErrorWord

        package init(index: Int, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    /// Items that the request applied.
    package var successCount: Int
    /// Items that the request did not apply.
    package var failures: [Failure]

    package init(successCount: Int, failures: [Failure]) {
        self.successCount = successCount
        self.failures = failures
    }
}

/// How far a request has come that several transactions apply (TOP-4). The project's later commands wait for its end.
/// After a crash the sender has no answer, and may repeat it.
package struct TopicChangeProgress: Sendable, Hashable {
    /// Tokens that earlier transactions have applied.
    package var doneCount = 0
    /// The result for the tokens that earlier transactions have applied.
    package var result = TopicChangeResult(successCount: 0, failures: [])
    /// The order in which tokens are applied, by index; empty: that of the request.
    package var order: [UInt16] = []
    /// Most tokens for one transaction.
    package var stepMax = Int.max

    /// Makes the progress of a request of which nothing is applied.
    package init() {}
}
