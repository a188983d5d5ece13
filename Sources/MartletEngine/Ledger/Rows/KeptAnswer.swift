// SPDX-License-Identifier: Apache-2.0
//
// What is kept for senders that ask again with the same key. Rests on Command.

/// MSG-9: what a sender was answered.
public struct KeptAnswer: Sendable, Hashable {
    public var acceptance: Acceptance
    /// Tells the message from another with the same key.
    public var digest: UInt64

    public init(acceptance: Acceptance, digest: UInt64) {
        self.acceptance = acceptance
        self.digest = digest
    }
}
