// SPDX-License-Identifier: Apache-2.0
//
// Metrics and health (EMB-2). Rests on MartletGateway.

import CoreMetrics
import Martlet
import MartletGateway
import MartletThreads
import Testing

extension OverHTTP {
    @Suite("Gateway: metrics and health", .serialized)
    struct MetricsTests {
        @Test("EMB-2 counters, gauges and histograms are written as Prometheus reads them")
        func exposition() {
            let registry = PrometheusRegistry()
            Counter(label: "a.total", dimensions: [("k", "x\"y\\z")], factory: registry)
                .increment(by: 3)
            Counter(label: "a.total", dimensions: [("k", "x\"y\\z")], factory: registry).increment()
            Gauge(label: "b", dimensions: [], factory: registry).record(2.5)
            let timer = CoreMetrics.Timer(label: "c_seconds", dimensions: [], factory: registry)
            timer.recordNanoseconds(2_000_000)
            timer.recordNanoseconds(60_000_000_000)
            let lines = registry.text.split(separator: "\n").map(String.init)
            #expect(
                lines[..<4] == [
                    "# TYPE a_total counter", #"a_total{k="x\"y\\z"} 4"#, "# TYPE b gauge", "b 2.5",
                ])
            for line in [
                "# TYPE c_seconds histogram", #"c_seconds_bucket{le="0.001"} 0"#,
                #"c_seconds_bucket{le="0.0025"} 1"#, #"c_seconds_bucket{le="30.0"} 1"#,
                #"c_seconds_bucket{le="+Inf"} 2"#, "c_seconds_sum 60.002", "c_seconds_count 2",
            ] {
                #expect(lines.contains(line), "\(line)")
            }
        }

        @Test("EMB-2 no text in a label ends its line")
        func labels() {
            let registry = PrometheusRegistry()
            Counter(label: "a", dimensions: [("k", "x\r\ny\nz")], factory: registry).increment()
            #expect(registry.text == "# TYPE a counter\na{k=\"x\r\\ny\\nz\"} 1\n")
        }

        @Test("EMB-2 figures that come late are not counted twice")
        func lateFigures() {
            let metrics = GatewayMetrics(other: nil)
            for (accepted, delivered) in [(10, 100), (8, 120), (12, 90), (12, 130)] {
                var figures = BrokerStatistics()
                figures.acceptedCount = UInt64(accepted)
                figures.deliveredCount = UInt64(delivered)
                metrics.record(figures, requestsInProgress: 0)
            }
            let lines = metrics.registry.text.split(separator: "\n")
            #expect(lines.contains("martlet_messages_accepted_total 12"))
            #expect(lines.contains("martlet_deliveries_total 130"))
        }

        @Test("EMB-2 what is answered and what the broker does can be read from /metrics")
        func figures() async throws {
            try await ServedGateway.run { served in
                let peer = try served.peer()
                peer.request("POST", "/v1/projects/tides/messages:send", "{}")
                #expect(try peer.answer().status == 401)
                _ = try await served.broker.send(
                    OutgoingMessage(to: .topic("t"), Message(data: ["a": "b"])), in: "tides")
                peer.request("GET", "/metrics")
                let answer = try peer.answer()
                #expect(
                    answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
                let lines = answer.body.split(separator: "\n").map(String.init)
                for line in [
                    #"martlet_http_requests_total{route="messages:send",status="401"} 1"#,
                    #"martlet_http_request_duration_seconds_count{route="messages:send"} 1"#,
                    "martlet_messages_accepted_total 1", "martlet_connections 0",
                    "martlet_http_requests_in_progress 1",
                ] {
                    #expect(lines.contains(line), "\(line)")
                }
                try await Task.sleep(for: RenderedMetrics.life)
                peer.request("GET", "/metrics")
                let again = try peer.answer().body
                #expect(again.contains("martlet_messages_accepted_total 1\n"))
                #expect(again.contains(#"requests_total{route="metrics",status="200"} 1"#))
                #expect(!again.contains(served.serverKey))
            }
        }

        @Test("OPS-10 the text of the metrics is made ten times a second at most")
        func moment() {
            var rendered = RenderedMetrics()
            var madeCount = 0
            let began = ContinuousClock.now
            for (milliseconds, count) in [(0, 1), (1, 1), (99, 1), (100, 2), (199, 2), (500, 3)] {
                let bytes = rendered.bytes(at: began + .milliseconds(milliseconds)) {
                    madeCount += 1
                    return "é\(madeCount)"
                }
                #expect(bytes == Array("é\(count)".utf8))
            }
        }

        @Test("EMB-2 whoever embeds the gateway gets its metrics too")
        func others() async throws {
            let registry = PrometheusRegistry()
            try await ServedGateway.run({ $0.metrics = registry }) { served in
                let peer = try served.peer()
                peer.request("GET", "/healthz")
                #expect(try peer.answer().body == "ok\n")
                served.gateway.recordMetrics()
            }
            #expect(registry.text.contains(#"requests_total{route="healthz",status="200"} 1"#))
            #expect(registry.text.contains("martlet_connections 0"))
        }

        @Test("EMB-2 health says why the broker takes nothing")
        func health() async throws {
            let folder = TestFolder()
            defer { withExtendedLifetime(folder) {} }
            let broker = try await folder.open()
            let gateway = Gateway(broker)
            let call = try #require(GatewayCall(.get, target: "/healthz"))
            #expect(await gateway.answer(call).status == 200)
            try await broker.close()
            let answer = await gateway.answer(call)
            #expect(answer.status == 503)
            #expect(String(decoding: answer.body, as: UTF8.self) == "The broker is closed.\n")
        }
    }
}
