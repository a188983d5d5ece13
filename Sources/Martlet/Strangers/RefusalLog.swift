// SPDX-License-Identifier: Apache-2.0
//
// REG-10: a refused credential leaves a line in the log, at most one line a second. A caller with a thousand wrong
// keys a second neither fills the disk nor goes unnoticed. Rests on swift-log.

package import Logging
import Synchronization

/// Logs refused credentials. The log never contains the presented credential.
package final class RefusalLog: Sendable {
    private static let silence = Duration.seconds(1)

    private struct State {
        var lastTold: ContinuousClock.Instant?
        var untoldCount = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    package init(_ logger: Logger) { self.logger = logger }

    /// Logs a refused credential. Within a second of the last line, the refusal is only counted for the next line.
    /// - Parameters:
    ///   - kind: kind of the credential.
    ///   - peer: the peer's address.
    package func refused(_ kind: String, from peer: String) {
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
            "kind": "\(kind)", "from": "\(peer)",
        ]
        if untoldCount > 0 { metadata["untold"] = "\(untoldCount)" }
        logger.warning("a credential was refused", metadata: metadata)
    }
}
