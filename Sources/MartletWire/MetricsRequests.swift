// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a broker, for the administrator (OPS-10): the lines that `serve --metrics` serves over HTTP, so that
// both have equal figures. A broker has some 200 lines, and 4 for each of 101 projects at most. A line has less than 150
// bytes, so the frame has less than 100 KiB. Rests on `WireReader` and `WireWriter`.

extension AdministratorInterface {
    /// OPS-10: all metrics of the broker, in the text format of Prometheus.
    public func metrics() async throws(Failure) -> String {
        try await requests.ask(MetricsRequest()).lines.map { $0 + "\n" }.joined()
    }
}

extension MetricsResult {
    package init(text: String) {
        self.init(lines: text.split(separator: "\n").map(String.init))
    }
}
