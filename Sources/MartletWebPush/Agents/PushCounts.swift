// SPDX-License-Identifier: Apache-2.0
//
// What user agents tell of messages, counted. The broker's reports count every ending of a message as delivered, because
// no repetition would change it; the counters here tell the endings apart. Rests on swift-metrics.

package import CoreMetrics
import Synchronization

/// Counters of the door.
package final class PushCounts: Sendable {
    /// The endings of a message at a user agent.
    package enum Ending: String, Sendable, CaseIterable {
        /// Code 100, or no code: the message was taken.
        case taken
        /// Code 101: the message could not be decrypted.
        case undecryptable
        /// Code 102: no worker took the message.
        case undelivered
        /// Another code.
        case other
        /// A worker refused a message that had been taken before (`nack`).
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
