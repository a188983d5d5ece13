// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a broker, for the administrator (OPS-10): the lines that `serve --metrics` serves over HTTP, so that
// both have equal figures. A broker has some 200 lines, and 4 for each of 101 projects at most. A line has less than 150
// bytes, so the frame has less than 100 KiB. Rests on `WireReader` and `WireWriter`.

/// METRICS (0x54): asks for the metrics of the broker. Answered by METRICS_RESULT.
public struct MetricsRequest: WireRequest {
    package typealias Answer = MetricsResult

    public var correlation: UInt32

    public init(correlation: UInt32 = 0) { self.correlation = correlation }

    package static var type: FrameType { .metrics }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }

    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// METRICS_RESULT (0x55): metrics in the text format of Prometheus, line by line.
public struct MetricsResult: WireAnswer {
    public var correlation: UInt32
    /// Lines without their ends.
    public var lines: [String]

    public init(correlation: UInt32 = 0, lines: [String]) {
        self.correlation = correlation
        self.lines = lines
    }

    package init(text: String) {
        self.init(lines: text.split(separator: "\n").map(String.init))
    }

    package static var type: FrameType { .metricsResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        lines = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.strings(lines)
    }
}

extension AdministratorInterface {
    /// OPS-10: all metrics of the broker, in the text format of Prometheus.
    public func metrics() async throws(Failure) -> String {
        try await requests.ask(MetricsRequest()).lines.map { $0 + "\n" }.joined()
    }
}
