// SPDX-License-Identifier: Apache-2.0
//
// Counts what user agents say became of their messages. In reports every ending counts as delivered, because sending again
// would change nothing; these counters tell the endings apart. Rests on swift-metrics.

package import CoreMetrics
import Synchronization

/// The door's counters.
package final class PushCounts: Sendable {
    /// What became of a message at a user agent.
    package enum Ending: String, Sendable, CaseIterable {
        /// Code 100 or none: a worker took the message.
        case taken
        /// Code 101: it couldn't be decrypted.
        case undecryptable
        /// Code 102: no worker took it.
        case undelivered
        /// Another code.
        case other
        /// A worker refused a message after it had been acknowledged (`nack`).
        case refused

        init(code: Int64?) {
            switch code {
            case nil, 100: self = .taken
            case 101: self = .undecryptable
            case 102: self = .undelivered
            default: self = .other
            }
        }
    }

    private let counters = Mutex<[Ending: Counter]>([:])

    package init() {}

    /// Shows the counters in the gateway's metrics.
    package func begin(with factory: any MetricsFactory) {
        counters.withLock { counters in
            for ending in Ending.allCases {
                counters[ending] = Counter(
                    label: "martlet_web_push_messages_total",
                    dimensions: [("ending", ending.rawValue)], factory: factory)
            }
        }
    }

    package func count(_ ending: Ending) {
        counters.withLock { $0[ending] }?.increment()
    }
}
