// SPDX-License-Identifier: Apache-2.0
//
// REG-10: callers whose credential is refused leave a line in the log, one a second at most: whoever
// tries a thousand keys a second neither fills the disk nor hides in silence. Rests on swift-log.

import Logging
import Synchronization

/// Writes about refused credentials. Never writes what was presented.
final class RefusedLogins: Sendable {
    private static let silence = Duration.seconds(1)

    private struct State {
        var lastTold: ContinuousClock.Instant?
        var untoldCount = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    init(_ logger: Logger) { self.logger = logger }

    /// - Parameters:
    ///   - kind: of the credential.
    ///   - peer: the caller's address, where it is known.
    func refused(_ kind: String, from peer: String?) {
        let now = ContinuousClock.now
        let untoldCount: Int? = state.withLock { state in
            if let lastTold = state.lastTold, now < lastTold + Self.silence {
                state.untoldCount += 1
                return nil
            }
            defer { state = State(lastTold: now) }
            return state.untoldCount
        }
        guard let untoldCount else { return }
        var metadata: Logger.Metadata = [
            "kind": "\(kind)", "from": "\(peer ?? "an unknown address")",
        ]
        if untoldCount > 0 { metadata["untold"] = "\(untoldCount)" }
        logger.warning("a credential was refused", metadata: metadata)
    }
}
