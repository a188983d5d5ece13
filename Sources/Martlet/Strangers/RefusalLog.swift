// SPDX-License-Identifier: Apache-2.0
//
// Logs refused credentials, failed handshakes and unknown proxies, at most one line of each kind per second (REG-10). A caller
// with a thousand wrong keys a second neither fills the disk nor goes unnoticed. Rests on swift-log.

package import Logging
import Synchronization

/// Logs refused peers. The log never contains a presented credential.
package final class RefusalLog: Sendable {
    private static let silence = Duration.seconds(1)

    private struct State {
        var lastTold: ContinuousClock.Instant?
        var untoldCount = 0
    }

    /// Reasons to refuse a peer. A line of one does not suppress a line of another.
    package enum Event: Int, CaseIterable, Sendable {
        case credential
        case handshake
        case proxy

        fileprivate var message: Logger.Message {
            switch self {
            case .credential: "a credential was refused"
            case .handshake: "TLS with a peer failed"
            case .proxy: "a peer that is no proxy of --proxy was closed"
            }
        }
    }

    private let logger: Logger
    private let states = Mutex([State](repeating: State(), count: Event.allCases.count))

    package init(_ logger: Logger) { self.logger = logger }

    /// Logs a refused credential. Within a second of the last line, the refusal is only counted for the next line.
    /// - Parameters:
    ///   - kind: kind of the credential.
    ///   - peer: the peer's address.
    package func refused(_ kind: String, from peer: String) {
        tell(.credential, from: peer, ["kind": "\(kind)"])
    }

    /// Logs an event, or counts the event for the next line of its kind.
    package func tell(_ event: Event, from peer: String, _ more: Logger.Metadata = [:]) {
        let now = ContinuousClock.now
        let untoldCount: Int? = states.withLock { states in
            let state = states[event.rawValue]
            if let lastTold = state.lastTold, now < lastTold + Self.silence {
                states[event.rawValue].untoldCount += 1
                return nil
            }
            states[event.rawValue] = State(lastTold: now)
            return state.untoldCount
        }
        guard let untoldCount else { return }
        var metadata = more
        metadata["from"] = "\(peer)"
        if untoldCount > 0 { metadata["untold"] = "\(untoldCount)" }
        logger.warning(event.message, metadata: metadata)
    }
}
