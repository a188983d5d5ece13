// SPDX-License-Identifier: Apache-2.0
//
// Metrics in the format of Prometheus (EMB-2): a factory of swift-metrics that keeps measurements and writes them out
// on request. Source: Prometheus text exposition format 0.0.4. Rests on swift-metrics.

public import CoreMetrics
import Synchronization

/// Keeps metrics in the memory of the process.
public final class PrometheusRegistry: MetricsFactory, Sendable {
    /// Series kept, at most. A series is a name with labels; further series are not measured.
    static let seriesMax = 10_000

    private struct Family {
        var kind: String
        /// Series by labels in written form.
        var series: [String: any Series] = [:]
    }

    private struct State {
        var families: [String: Family] = [:]
        var count = 0
    }

    private let state = Mutex(State())

    /// Makes a registry without measurements.
    public init() {}

    /// All measurements as text, in the order of names and labels.
    public var text: String {
        // Lists of their own: a held dictionary is copied whole when the next series is made.
        let families = state.withLock { state in
            state.families.map {
                (name: $0.key, kind: $0.value.kind, series: Array($0.value.series))
            }
        }
        var lines: [String] = []
        for family in families.sorted(by: { $0.name < $1.name }) {
            lines.append("# TYPE \(family.name) \(family.kind)")
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(family.name, labels, into: &lines)
            }
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private func series<One: Series>(
        _ label: String, _ dimensions: [(String, String)], _ make: () -> One
    ) -> One {
        let name = Self.name(label)
        let labels = dimensions.map { "\(Self.name($0))=\"\(Self.escaped($1))\"" }
            .joined(separator: ",")
        return state.withLock { state in
            var family = state.families[name] ?? Family(kind: One.kind)
            if let known = family.series[labels] as? One { return known }
            let new = make()
            // Prometheus does not understand a name with two kinds of series.
            guard family.kind == One.kind, state.count < Self.seriesMax else { return new }
            family.series[labels] = new
            state.families[name] = family
            state.count += 1
            return new
        }
    }

    private static func name(_ text: String) -> String {
        String(
            text.unicodeScalars.map { scalar -> Character in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9", "_", ":": Character(scalar)
                default: "_"
                }
            })
    }

    /// Escapes scalars and not characters, because a carriage return with its line feed is a single character.
    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            switch scalar {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(scalar)
            }
        }.joined()
    }

    // MARK: MetricsFactory

    /// Makes a counter, or returns the counter of equal name and labels.
    public func makeCounter(
        label: String, dimensions: [(String, String)]
    ) -> any CounterHandler {
        series(label, dimensions) { CounterSeries() }
    }

    /// Makes a gauge, or returns the gauge of equal name and labels.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions) { GaugeSeries() }
    }

    /// Makes a histogram, or without `aggregate` a gauge of the last value.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        aggregate
            ? series(label, dimensions) { HistogramSeries(dividingBy: 1) }
            : series(label, dimensions) { GaugeSeries() }
    }

    /// Makes a timer, whose durations `text` writes in seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions) { HistogramSeries(dividingBy: 1e9) }
    }

    /// No effect: the counter stays in `text`.
    public func destroyCounter(_ handler: any CounterHandler) {}
    /// No effect: the gauge stays in `text`.
    public func destroyMeter(_ handler: any MeterHandler) {}
    /// No effect: the recorder stays in `text`.
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    /// No effect: the timer stays in `text`.
    public func destroyTimer(_ handler: any TimerHandler) {}
}
