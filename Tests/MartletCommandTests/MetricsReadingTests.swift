// SPDX-License-Identifier: Apache-2.0
//
// What `martlet top` reads of a broker's metrics (OPS-10): series, growth and quantiles. The quantiles are those that
// `histogram_quantile` of Prometheus gives for these buckets, worked out by hand.

import MartletAnswers
import Testing

@Suite("Metrics as top reads them")
struct MetricsReadingTests {
    private static let before = MetricsReading(
        """
        # TYPE martlet_refusals_total counter
        martlet_refusals_total{cause="NOT_FOUND"} 4
        martlet_refusals_total{cause="UNAVAILABLE"} 1
        # TYPE time_seconds histogram
        time_seconds_bucket{le="0.001"} 10
        time_seconds_bucket{le="0.01"} 10
        time_seconds_bucket{le="0.1"} 10
        time_seconds_bucket{le="+Inf"} 10
        martlet_disk_bytes 42949672960

        """)

    private static func after(_ counts: [Int], refusals: [String: Int] = [:]) -> MetricsReading {
        let ends = ["0.001", "0.01", "0.1", "+Inf"]
        return MetricsReading(
            zip(ends, counts).map { "time_seconds_bucket{le=\"\($0)\"} \($1)\n" }.joined()
                + refusals.map { "martlet_refusals_total{cause=\"\($0.key)\"} \($0.value)\n" }
                .joined())
    }

    @Test("A series has its value, a missing series 0, and a line that is no series is passed over")
    func values() {
        #expect(Self.before.value("martlet_disk_bytes") == 42_949_672_960)
        #expect(Self.before.count("martlet_disk_bytes") == 42_949_672_960)
        #expect(Self.before.value("martlet_disk") == 0)
        #expect(Self.before.value(#"martlet_refusals_total{cause="NOT_FOUND"}"#) == 4)
        #expect(Self.before.family("martlet_refusals_total") == ["NOT_FOUND": 4, "UNAVAILABLE": 1])
        let odd = MetricsReading("a\nb x\n\nc NaN\nd -1\ne 1e30\n  \n")
        #expect(odd.value("b") == 0 && odd.count("c") == 0 && odd.count("d") == 0)
        #expect(odd.count("e") == 0 && odd.value("e") == 1e30)
    }

    @Test("Counters that grew are told with their growth; a counter that began anew is not")
    func growth() {
        let grown = Self.after(
            [], refusals: ["NOT_FOUND": 9, "UNAVAILABLE": 1, "INTERNAL": 2]
        ).growth(of: "martlet_refusals_total", since: Self.before)
        #expect(grown == ["NOT_FOUND": 5, "INTERNAL": 2])
        let restarted = Self.after([], refusals: ["NOT_FOUND": 1])
            .growth(of: "martlet_refusals_total", since: Self.before)
        #expect(restarted.isEmpty)
    }

    @Test("Refusals of projects are told with project and cause, those that grew alone")
    func growthOfPairs() {
        func reading(_ counts: [Int]) -> MetricsReading {
            MetricsReading(
                zip(
                    [("tides", "NOT_FOUND"), ("tides", "INTERNAL"), ("(others)", "INTERNAL")],
                    counts
                )
                .map { "refusals{project=\"\($0.0)\",cause=\"\($0.1)\"} \($1)\n" }.joined())
        }
        let grown = reading([4, 7, 2]).growthOfPairs(
            of: "refusals", labelled: "cause", since: reading([4, 5]))
        let told = grown.map { "\($0.first) \($0.second) \($0.count)" }.sorted()
        #expect(told == ["(others) INTERNAL 2", "tides INTERNAL 2"])
    }

    @Test(
        "Quantiles are of the values since the earlier reading",
        arguments: [
            // 100 values between 1 and 10 ms: on a straight line through the bucket.
            ([10, 110, 110, 110], 100, 0.0055, 0.00991),
            // 50 below 1 ms, 50 between 10 and 100 ms.
            ([60, 60, 110, 110], 100, 0.001, 0.0982),
            // One below 1 ms.
            ([11, 11, 11, 11], 1, 0.0005, 0.00099),
            // Beyond the last finite end.
            ([10, 10, 10, 14], 4, 0.1, 0.1),
        ])
    func quantiles(counts: [Int], count: Int, p50: Double, p99: Double) throws {
        let histogram = Self.after(counts).histogram("time_seconds", since: Self.before)
        #expect(histogram.count == UInt64(count))
        #expect(abs(try #require(histogram.quantile(0.5)) - p50) < 1e-9)
        #expect(abs(try #require(histogram.quantile(0.99)) - p99) < 1e-9)
    }

    @Test("A histogram without new values, or unknown to the broker, has no quantile")
    func empty() {
        let none = Self.before.histogram("time_seconds", since: Self.before)
        #expect(none.count == 0 && none.quantile(0.5) == nil)
        let unknown = Self.before.histogram("space_seconds", since: Self.before)
        #expect(unknown.count == 0 && unknown.quantile(0.99) == nil)
    }
}
