// SPDX-License-Identifier: Apache-2.0
//
// State of a metric with its labels. Rests on swift-metrics.

import CoreMetrics
import Synchronization

/// State of a metric that writes a line of text, or several lines for a histogram.
protocol Series: Sendable {
    static var kind: String { get }
    func write(_ name: String, _ labels: String, into lines: inout [String])
}

extension Series {
    static func line(_ name: String, _ labels: String, _ value: String) -> String {
        labels.isEmpty ? "\(name) \(value)" : "\(name){\(labels)} \(value)"
    }
}

final class CounterSeries: Series, CounterHandler {
    static let kind = "counter"
    private let count = Atomic<Int64>(0)

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }
    func reset() { count.store(0, ordering: .relaxed) }

    func write(_ name: String, _ labels: String, into lines: inout [String]) {
        lines.append(Self.line(name, labels, String(count.load(ordering: .relaxed))))
    }
}

final class GaugeSeries: Series, RecorderHandler, MeterHandler {
    static let kind = "gauge"
    private let value = Mutex(0.0)

    func record(_ new: Int64) { value.withLock { $0 = Double(new) } }
    func record(_ new: Double) { value.withLock { $0 = new } }
    func set(_ new: Int64) { record(new) }
    func set(_ new: Double) { record(new) }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }

    func write(_ name: String, _ labels: String, into lines: inout [String]) {
        let value = value.withLock { $0 }
        let isWhole = value == value.rounded() && abs(value) < 1e15
        lines.append(Self.line(name, labels, isWhole ? String(Int64(value)) : String(value)))
    }
}

final class HistogramSeries: Series, TimerHandler, RecorderHandler {
    static let kind = "histogram"
    /// Upper ends of the buckets, in seconds for a timer.
    static let ends = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
        10, 30,
    ]

    /// Holds its counts itself, so a scrape copies them and shares no memory with who records.
    private struct State {
        /// One for each end, and one beyond the last.
        var counts = InlineArray<18, UInt64>(repeating: 0)
        var sum = 0.0
    }

    /// Divisor between recorded and written values; 1e9 turns nanoseconds into seconds.
    private let divisor: Double
    private let state = Mutex(State())

    init(dividingBy divisor: Double) { self.divisor = divisor }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration)) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let value = value / divisor
        let place = Self.ends.firstIndex { value <= $0 } ?? Self.ends.count
        state.withLock {
            $0.counts[place] += 1
            $0.sum += value
        }
    }

    func write(_ name: String, _ labels: String, into lines: inout [String]) {
        let state = state.withLock { $0 }
        let before = labels.isEmpty ? "" : labels + ","
        var count: UInt64 = 0
        for index in state.counts.indices {
            count += state.counts[index]
            let end = index < Self.ends.count ? "\(Self.ends[index])" : "+Inf"
            lines.append(Self.line(name + "_bucket", before + "le=\"\(end)\"", String(count)))
        }
        lines.append(Self.line(name + "_sum", labels, String(state.sum)))
        lines.append(Self.line(name + "_count", labels, String(count)))
    }
}
