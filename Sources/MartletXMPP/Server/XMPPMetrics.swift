// SPDX-License-Identifier: Apache-2.0
//
// The XMPP connection server's metrics, among those of its broker: open connections, messages by kind, and ended streams by
// error (OPS-10). Rests on swift-metrics.

import CoreMetrics
import Martlet

/// The metrics of one server.
final class XMPPMetrics: Sendable {
    /// Kinds of messages of the server.
    enum Kind: String, CaseIterable, Sendable {
        /// Accepted messages of app servers.
        case ack
        /// Refused messages of app servers.
        case nack
        /// Messages of devices, each time that one is sent.
        case upstream
        /// Receipts, each time that one is sent.
        case receipt
    }

    private let connections: Gauge
    private let messages: [Kind: Counter]
    private let endings: [StreamError.Condition: Counter]

    init(_ broker: Broker) {
        let factory = broker.metricsFactory
        connections = Gauge(label: "martlet_xmpp_connections", dimensions: [], factory: factory)
        messages = Dictionary(
            uniqueKeysWithValues: Kind.allCases.map { kind in
                let counter = Counter(
                    label: "martlet_xmpp_messages_total", dimensions: [("kind", kind.rawValue)],
                    factory: factory)
                return (kind, counter)
            })
        endings = Dictionary(
            uniqueKeysWithValues: StreamError.Condition.allCases.map { condition in
                let counter = Counter(
                    label: "martlet_xmpp_stream_errors_total",
                    dimensions: [("condition", condition.rawValue)], factory: factory)
                return (condition, counter)
            })
    }

    /// Records the number of open connections, before and after the sign-in.
    func connected(_ count: Int) { connections.record(count) }

    func sent(_ kind: Kind) { messages[kind]?.increment() }

    func ended(_ condition: StreamError.Condition) { endings[condition]?.increment() }
}
