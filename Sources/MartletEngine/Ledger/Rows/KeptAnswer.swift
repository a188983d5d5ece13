// SPDX-License-Identifier: Apache-2.0
//
// The answer for a sender that repeats a request with an idempotency key. Rests on Command.

/// MSG-9: the answer to a request with an idempotency key.
package struct KeptAnswer: Sendable, Hashable {
    /// Answer that the first request got.
    package var acceptance: Acceptance
    /// A digest of the message, to notice a different message with an equal key.
    package var digest: UInt64

    package init(acceptance: Acceptance, digest: UInt64) {
        self.acceptance = acceptance
        self.digest = digest
    }
}
