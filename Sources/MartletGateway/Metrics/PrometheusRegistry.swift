// SPDX-License-Identifier: Apache-2.0
//
// Metrics as Prometheus reads them (EMB-2): a factory of swift-metrics that keeps what is measured, and
// writes it down when asked. Source: Prometheus text exposition format 0.0.4. Rests on swift-metrics.

public import CoreMetrics
import Synchronization

/// Keeps metrics in this process.
public final class PrometheusRegistry: MetricsFactory, Sendable {
    /// Names with labels that are kept; what comes beyond is not measured.
    public static let seriesMax = 10_000

    private struct Family {
        var kind: String
        /// By their labels as they are written.
        var series: [String: any Series] = [:]
    }

    private struct State {
        var families: [String: Family] = [:]
        var count = 0
    }

    private let state = Mutex(State())

    public init() {}

    /// Everything that was measured, in the order of names and labels.
    public var text: String {
        let families = state.withLock { $0.families }
        var lines: [String] = []
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            lines.append("# TYPE \(name) \(family.kind)")
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(name, labels, into: &lines)
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
            // Another kind of that name would not be understood.
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

    private static func escaped(_ text: String) -> String {
        text.map { character in
            switch character {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(character)
            }
        }.joined()
    }

    // MARK: MetricsFactory

    public func makeCounter(
        label: String, dimensions: [(String, String)]
    ) -> any CounterHandler {
        series(label, dimensions) { CounterSeries() }
    }

    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions) { GaugeSeries() }
    }

    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        aggregate
            ? series(label, dimensions) { HistogramSeries(dividingBy: 1) }
            : series(label, dimensions) { GaugeSeries() }
    }

    /// Written in seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions) { HistogramSeries(dividingBy: 1e9) }
    }

    public func destroyCounter(_ handler: any CounterHandler) {}
    public func destroyMeter(_ handler: any MeterHandler) {}
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    public func destroyTimer(_ handler: any TimerHandler) {}
}
