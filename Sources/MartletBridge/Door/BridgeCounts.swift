// SPDX-License-Identifier: Apache-2.0
//
// Counts push services' answers. Rests on swift-metrics.

import CoreMetrics
import Martlet

/// A door's counters.
final class BridgeCounts: Sendable {
    private let counters: [String: Counter]

    private static let answers = ["taken", "gone", "refused", "later", "key_refused"]

    init(_ factory: any MetricsFactory) {
        var counters: [String: Counter] = [:]
        for kind in BridgeKind.allCases {
            for answer in Self.answers {
                counters["\(kind.name) \(answer)"] = Counter(
                    label: "martlet_bridge_answers_total",
                    dimensions: [("service", kind.name), ("answer", answer)], factory: factory)
            }
        }
        self.counters = counters
    }

    func count(_ answer: HandOverAnswer, of kind: BridgeKind) {
        let name =
            switch answer {
            case .taken: "taken"
            case .gone: "gone"
            case .refused: "refused"
            case .later, .laterForInstance: "later"
            case .keyRefused: "key_refused"
            }
        counters["\(kind.name) \(name)"]?.increment()
    }
}
