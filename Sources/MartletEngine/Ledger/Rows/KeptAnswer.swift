// SPDX-License-Identifier: Apache-2.0
//
// What a sender is answered that repeats a request with an idempotency key. Rests on Command.

/// The answer to a request with an idempotency key (MSG-9).
package struct KeptAnswer: Sendable, Hashable {
    /// What the first request was answered.
    package var acceptance: Acceptance
    /// A digest of the message, to notice a different one under the same key.
    package var digest: UInt64

    package init(acceptance: Acceptance, digest: UInt64) {
        self.acceptance = acceptance
        self.digest = digest
    }
}
