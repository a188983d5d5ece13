// SPDX-License-Identifier: Apache-2.0
//
// The server's metrics: open connections, messages by kind, and streams that an error has ended (OPS-10). They appear among
// the broker's. Rests on swift-metrics.

import CoreMetrics
import Martlet

/// The metrics of one server.
final class XMPPMetrics: Sendable {
    /// What is counted.
    enum Kind: String, CaseIterable, Sendable {
        /// An app server's message was accepted.
        case ack
        /// An app server's message was refused.
        case nack
        /// A device's message was sent, repetitions included.
        case upstream
        /// A receipt was sent, repetitions included.
        case receipt
    }

    private let connections: Gauge
    private let messages: [Kind: Counter]
    private let endings: [StreamCondition: Counter]

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
            uniqueKeysWithValues: StreamCondition.allCases.map { condition in
                let counter = Counter(
                    label: "martlet_xmpp_stream_errors_total",
                    dimensions: [("condition", condition.rawValue)], factory: factory)
                return (condition, counter)
            })
    }

    /// Records the number of open connections, signed in or not.
    func connected(_ count: Int) { connections.record(count) }

    func sent(_ kind: Kind) { messages[kind]?.increment() }

    func ended(_ condition: StreamCondition) { endings[condition]?.increment() }
}
