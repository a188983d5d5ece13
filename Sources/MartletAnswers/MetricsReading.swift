// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a broker as `martlet top` reads them: values by series, the growth of counters between two readings,
// and quantiles of histograms, worked out as `histogram_quantile` of Prometheus does. Source: Prometheus text exposition
// format 0.0.4. Pure.

/// The metrics of a broker at an instant.
package struct MetricsReading: Sendable {
    /// A series is a name, with its labels in braces if there are any, as the text has them.
    private var values: [Substring: Double] = [:]

    package init(_ text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "),
                let value = Double(line[line.index(after: space)...])
            else { continue }
            values[line[..<space]] = value
        }
    }

    /// The value of a series; 0 for a series that the broker does not have.
    package func value(_ series: String) -> Double { values[series[...]] ?? 0 }

    /// The value as a whole number.
    package func count(_ series: String) -> UInt64 {
        UInt64(exactly: value(series).rounded()) ?? 0
    }

    /// The values of a family with a single label, by the label's value.
    package func family(_ name: String) -> [String: Double] {
        var found: [String: Double] = [:]
        for (series, value) in values where series.hasPrefix(name + "{") && series.hasSuffix("\"}")
        {
            guard let quote = series.firstIndex(of: "\"") else { continue }
            let label = series[series.index(after: quote)...].dropLast(2)
            found[String(label)] = value
        }
        return found
    }

    /// The growth of each counter of a family since an earlier reading, without counters that did not grow.
    package func growth(of name: String, since earlier: MetricsReading) -> [String: UInt64] {
        let before = earlier.family(name)
        return family(name).reduce(into: [:]) { grown, one in
            let more = one.value - (before[one.key] ?? 0)
            if more > 0 { grown[one.key] = UInt64(exactly: more.rounded()) }
        }
    }

    /// The growth of each counter of a family with two labels, as `growth`, by the values of the labels.
    package func growthOfPairs(
        of name: String, labelled second: String, since earlier: MetricsReading
    ) -> [(first: String, second: String, count: UInt64)] {
        // The first label's value ends where the second label begins.
        let between = "\",\(second)=\""
        return growth(of: name, since: earlier).compactMap { labels, count in
            guard let range = labels.firstRange(of: between) else { return nil }
            return (
                String(labels[..<range.lowerBound]), String(labels[range.upperBound...]), count
            )
        }
    }

    /// The values that a histogram took since an earlier reading.
    package func histogram(_ name: String, since earlier: MetricsReading) -> Histogram {
        let before = earlier.family(name + "_bucket")
        let buckets = family(name + "_bucket").compactMap { end, count in
            Double(end == "+Inf" ? "inf" : end).map {
                (end: $0, count: max(count - (before[end] ?? 0), 0))
            }
        }
        return Histogram(buckets: buckets.sorted { $0.end < $1.end })
    }

    /// Buckets in the order of their ends. The count of a bucket is that of all values up to the end.
    package struct Histogram: Sendable {
        package var buckets: [(end: Double, count: Double)]

        package var count: UInt64 { UInt64(exactly: (buckets.last?.count ?? 0).rounded()) ?? 0 }

        /// A value below which this part of all values lies, on a straight line through the bucket. Values beyond the
        /// last finite end count as this end.
        /// - Returns: nil without values.
        package func quantile(_ part: Double) -> Double? {
            guard let all = buckets.last?.count, all > 0 else { return nil }
            let rank = part * all
            var (start, below) = (0.0, 0.0)
            for (end, count) in buckets {
                if end.isInfinite { return start }
                if count >= rank, count > below {
                    return start + (end - start) * (rank - below) / (count - below)
                }
                (start, below) = (end, count)
            }
            return start
        }
    }
}
