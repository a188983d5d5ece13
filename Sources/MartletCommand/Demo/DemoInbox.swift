// SPDX-License-Identifier: Apache-2.0
//
// The arrivals of messages at the demo's devices: at which device, how often and when. Rests on Synchronization.

import Synchronization

final class DemoInbox: Sendable {
    struct Arrivals: Sendable {
        /// Arrivals at each device, by the device's index.
        var times: [Int: Int] = [:]
        var count = 0
        var first: ContinuousClock.Instant?
        var last: ContinuousClock.Instant?
    }

    private let arrivals: Mutex<[Arrivals]>
    private let unknown = Mutex(0)
    private let failures = Mutex<[String]>([])

    init(stepCount: Int) {
        arrivals = Mutex([Arrivals](repeating: Arrivals(), count: stepCount))
    }

    /// Records that the device's application was given a message of a step.
    func record(step: Int?, device: Int) {
        let now = ContinuousClock.now
        arrivals.withLock { arrivals in
            guard let step, arrivals.indices.contains(step) else {
                unknown.withLock { $0 += 1 }
                return
            }
            arrivals[step].times[device, default: 0] += 1
            arrivals[step].count += 1
            if arrivals[step].first == nil { arrivals[step].first = now }
            arrivals[step].last = now
        }
    }

    /// Records that a device ended without being closed.
    func recordFailure(_ text: String) { failures.withLock { $0.append(text) } }

    func arrivals(step: Int) -> Arrivals { arrivals.withLock { $0[step] } }
    func count(step: Int) -> Int { arrivals.withLock { $0[step].count } }
    var unknownCount: Int { unknown.withLock { $0 } }
    var failureTexts: [String] { failures.withLock { $0 } }
}
