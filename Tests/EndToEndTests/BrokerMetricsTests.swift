// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a served broker, and the alerts that rest on them. Each alert is fired by Prometheus' own promtool
// with series of the names that the broker serves. Rests on Desk; promtool is looked for, and the test says so when it
// skips.

import Foundation
import Testing

@Suite("Metrics of a broker and alerts", .timeLimit(.minutes(3)))
struct BrokerMetricsTests {
    private static let rules = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Examples/prometheus-alerts.yml")
    private static let promtool = ["/usr/bin/promtool", "/usr/local/bin/promtool"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    private struct Ready: Decodable {
        var port: Int
        var metrics: String?
    }

    /// What a broker serves as its metrics.
    private static func metrics(_ url: String?) throws -> [String] {
        let port = try #require(
            url.flatMap { URL(string: $0) }?.port.flatMap { UInt16(exactly: $0) })
        let client = try HTTPClient(port: port)
        client.send("GET", "/metrics")
        let answer = try client.answer()
        #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
        return answer.split(whereSeparator: \.isNewline).map(String.init)
    }

    private static func value(_ name: String, _ lines: [String]) -> Double? {
        lines.first { $0.hasPrefix(name + " ") }.flatMap {
            Double($0.dropFirst(name.count + 1))
        }
    }

    @Test(
        "OPS-10 a broker serves its metrics on an address of their own, with a gateway or without",
        arguments: [["serve"], ["gateway", "--http", "127.0.0.1:0"]])
    func served(command: [String]) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let process = try desk.start(
            command + ["--port", "0", "--metrics", "127.0.0.1:0", "--json", "--loops", "1"])
        let ready = try JSONDecoder().decode(
            Ready.self, from: Data(desk.firstLine(process).utf8))
        let device = try desk.start([
            "listen", "--project", "tides", "--app", "com.example.tides", "--state", "phone.json",
            "--port", "\(ready.port)", "--json", "--timeout", "60", "--topic", "all", "--count",
            "1",
        ])
        _ = desk.firstLine(device)
        var lines = try Self.metrics(ready.metrics)
        #expect(lines.contains("martlet_connections 1"))
        // A loop counts by project once in a while.
        let ofProject = #"martlet_project_connections{project="tides"} 1"#
        for _ in 0..<100 where !lines.contains(ofProject) {
            usleep(100_000)
            lines = try Self.metrics(ready.metrics)
        }
        #expect(lines.contains(ofProject))
        let sent = try desk.run(
            "send", "--project", "tides", "--topic", "all", "--data", "n=1")
        #expect(sent.status == 0, "\(sent.err)")
        #expect(desk.finish(device).status == 0)
        _ = try desk.run("unregister", "--project", "tides", "--token", "x")
        lines = try Self.metrics(ready.metrics)
        #expect(lines.contains("martlet_messages_accepted_total 1"))
        #expect(lines.contains(#"martlet_refusals_total{cause="INVALID_ARGUMENT"} 1"#))
        for name in [
            "martlet_commit_duration_seconds_count", "martlet_journal_write_duration_seconds_count",
            "martlet_first_delivery_duration_seconds_count",
            "martlet_last_delivery_duration_seconds_count", "martlet_disk_free_bytes",
            "martlet_disk_bytes", "martlet_store_map_bytes", "martlet_store_file_bytes",
        ] {
            #expect(Self.value(name, lines) ?? 0 > 0, "\(name)")
        }
        for name in ["martlet_store_refusing", "martlet_disk_short", "martlet_fanouts_deferred"] {
            #expect(Self.value(name, lines) == 0, "\(name)")
        }
        let families = lines.filter { $0.hasPrefix("# TYPE ") }
        #expect(Set(families).count == families.count, "a family is written once")
        process.terminate()
        #expect(desk.finish(process).status == 0)
    }

    /// What `top --json` prints, as far as the tests look at it.
    private struct Top: Decodable {
        struct Durations: Decodable {
            var count: UInt64
            var p50: Double?
            var p99: Double?
        }
        struct Refusals: Decodable {
            var cause: String
            var count: UInt64
        }
        var storeState: String
        var storeMapBytes: UInt64
        var storeFileBytes: UInt64
        var diskBytes: UInt64
        var diskFreeBytes: UInt64
        var commit: Durations
        var journalWrite: Durations
        var firstDelivery: Durations
        var lastDelivery: Durations
        var refusals: [Refusals]
        var tlsHandshakes: UInt64
        var tlsFailures: UInt64
    }

    @Test("OPS-10 top shows the broker's metrics of the time since the last look")
    func top() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let broker = try desk.start(
            ["serve", "--port", "0", "--metrics", "127.0.0.1:0", "--json", "--loops", "1"])
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(broker).utf8))
        let device = try desk.start([
            "listen", "--project", "tides", "--app", "com.example.tides", "--state", "phone.json",
            "--port", "\(ready.port)", "--json", "--timeout", "120", "--topic", "all",
        ])
        _ = desk.firstLine(device)
        let top = try desk.start(["top", "--json", "--interval", "3"])
        // Whenever the first look is, some of these come after it.
        while top.isRunning {
            let sent = try desk.run("send", "--project", "tides", "--topic", "all", "--data", "n=1")
            #expect(sent.status == 0, "\(sent.err)")
            #expect(try desk.run("unregister", "--project", "tides", "--token", "x").status == 1)
        }
        let told = try JSONDecoder().decode(Top.self, from: Data(desk.finish(top).out.utf8))
        for durations in [told.commit, told.journalWrite, told.firstDelivery, told.lastDelivery] {
            let (p50, p99) = (try #require(durations.p50), try #require(durations.p99))
            #expect(durations.count > 0 && p50 > 0 && p50 <= p99 && p99 < 31)
        }
        try #require(told.refusals.map(\.cause) == ["INVALID_ARGUMENT"])
        #expect(told.storeState == "ok" && told.tlsHandshakes == 0)
        // The figures of the same broker over HTTP.
        let lines = try Self.metrics(ready.metrics)
        let refused = try #require(
            Self.value(#"martlet_refusals_total{cause="INVALID_ARGUMENT"}"#, lines))
        #expect(told.refusals[0].count > 0 && told.refusals[0].count <= UInt64(refused))
        let commits = try #require(Self.value("martlet_commit_duration_seconds_count", lines))
        #expect(told.commit.count <= UInt64(commits))
        #expect(Self.value("martlet_store_map_bytes", lines) == Double(told.storeMapBytes))
        #expect(Self.value("martlet_disk_bytes", lines) == Double(told.diskBytes))
        #expect(told.storeFileBytes > 0 && told.diskFreeBytes <= told.diskBytes)

        // A broker at rest has no durations and no refusals.
        device.terminate()
        _ = desk.finish(device)
        let table = try desk.run("top", "--once")
        #expect(table.status == 0 && table.out.contains("store ok   file "), "\(table)")
        #expect(table.out.contains("first delivery -   last -"), "\(table)")
        #expect(table.out.contains("refused: nothing   TLS handshakes/s 0"), "\(table)")
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test("OPS-10 an address that another process has is refused at start")
    func occupied() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, port) = try desk.serve()
        defer {
            broker.terminate()
            _ = desk.finish(broker)
        }
        let second = try desk.run(
            "serve", "--data", "other", "--port", "0", "--metrics", "127.0.0.1:\(port)")
        #expect(second.status == 1 && second.err.contains("Metrics cannot be served"), "\(second)")
        #expect(try desk.run("serve", "--metrics", "here").status == 64)
    }

    @Test("OPS-10 probes of every kind are answered on the port of the metrics")
    func probes() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.start(["serve", "--port", "0", "--metrics", "localhost:0", "--json"])
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(process).utf8))
        let port = try #require(
            ready.metrics.flatMap { URL(string: $0) }?.port.flatMap { UInt16(exactly: $0) })
        let allow = "\r\nallow: GET, HEAD, OPTIONS\r\n"
        for (line, status, hasBody, allows) in [
            ("GET /metrics HTTP/1.1", 200, true, false),
            ("GET /metrics HTTP/1.0", 200, true, false),
            ("HEAD /metrics HTTP/1.1", 200, false, false),
            ("HEAD /healthz HTTP/1.1", 200, false, false),
            ("GET /metrics?name%5B%5D=x HTTP/1.1", 200, true, false),
            ("GET /healthz?verbose HTTP/1.1", 200, true, false),
            ("GET http://h:9/metrics HTTP/1.1", 200, true, false),
            ("GET HTTP://h/healthz?x=1 HTTP/1.1", 200, true, false),
            ("\r\nGET /healthz HTTP/1.1", 200, true, false),
            ("OPTIONS /metrics HTTP/1.1", 204, false, true),
            ("OPTIONS * HTTP/1.1", 204, false, true),
            ("POST /metrics HTTP/1.1", 405, true, true),
            ("DELETE /healthz?x HTTP/1.1", 405, true, true),
            ("GET /%6detrics HTTP/1.1", 404, true, false), ("GET / HTTP/1.1", 404, true, false),
            ("HEAD /nothing HTTP/1.1", 404, false, false),
            ("GET http://h HTTP/1.1", 404, true, false), ("GET * HTTP/1.1", 404, true, false),
            ("GET /metrics", 400, true, false), ("GET /metrics HTTP/2.0", 400, true, false),
            ("GET  /metrics HTTP/1.1", 400, true, false),
        ] {
            let client = try HTTPClient(port: port)
            client.send(raw: line + "\r\nHost: h\r\nContent-Length: 2\r\n\r\n")
            let answer = try client.answer()
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(line)")
            #expect(answer.contains("\r\ndate: "), "\(line)")
            #expect(answer.contains("\r\nconnection: close\r\n"), "\(line)")
            #expect(answer.contains(allow) == allows, "\(line)")
            #expect(answer.hasSuffix("\r\n\r\n") != hasBody, "\(line)")
            // The length is that of the answer to GET.
            #expect(answer.contains("\r\ncontent-length: ") == (status != 204), "\(line)")
        }
        process.terminate()
        #expect(desk.finish(process).status == 0)
    }

    @Test("OPS-15 OPS-10 peers that are silent, slow or do not read keep no collector waiting")
    func stalled() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.start(["serve", "--port", "0", "--metrics", "localhost:0", "--json"])
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(process).utf8))
        #expect(ready.metrics?.hasPrefix("http://localhost:") ?? false, "\(ready)")
        let port = try #require(
            ready.metrics.flatMap { URL(string: $0) }?.port.flatMap { UInt16(exactly: $0) })
        let first = try HTTPClient(port: port)
        // More than the listener holds at a time: the oldest end, and the others wait.
        var peers: [HTTPClient] = []
        for number in 0..<150 {
            let peer = try HTTPClient(port: port)
            if number % 3 == 1 { peer.send(raw: "GET /metr") }
            if number % 3 == 2 { peer.send(raw: "GET /metrics HTTP/1.1\r\nX: ") }
            peers.append(peer)
            if number % 30 == 0 { #expect(try !Self.metrics(ready.metrics).isEmpty) }
        }
        #expect(try first.answer() == "")
        let probe = try HTTPClient(port: port)
        probe.send("GET", "/healthz")
        #expect(try probe.answer().hasPrefix("HTTP/1.1 200 OK\r\n"))
        withExtendedLifetime(peers) { process.terminate() }
        #expect(desk.finish(process).status == 0)
    }

    @Test("OPS-10 alerts rest on metrics that a broker serves, and the article has each alert")
    func names() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.start([
            "gateway", "--port", "0", "--http", "127.0.0.1:0", "--apns", "--metrics",
            "127.0.0.1:0", "--json",
        ])
        let ready = try JSONDecoder().decode(
            Ready.self, from: Data(desk.firstLine(process).utf8))
        let lines = try Self.metrics(ready.metrics)
        process.terminate()
        #expect(desk.finish(process).status == 0)
        let rules = try String(contentsOf: Self.rules, encoding: .utf8)
        let served = Set(
            lines.compactMap { $0.firstMatch(of: /^(martlet_\w+)/).map { String($0.1) } })
        let named = Set(rules.matches(of: /martlet_\w+/).map { String($0.0) })
        #expect(named.count > 8)
        // The names of a cluster's node are checked in the tests of clusters.
        #expect(named.subtracting(served).filter { !$0.hasPrefix("martlet_cluster_") } == [])
        let article = try String(
            contentsOf: Self.rules.deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Sources/Martlet/Martlet.docc/Operating.md"), encoding: .utf8)
        for match in rules.matches(of: /alert: (\w+)/) {
            #expect(article.contains("| \(match.1) |"), "\(match.1)")
        }
    }

    /// Series beside the series of an alert, in both cases.
    private static let beside = [
        "MartletDiskFilling": [#"series: 'martlet_disk_bytes{instance="a"}', values: '100x30'"#],
        "MartletClusterTwoActive": [
            #"series: 'martlet_cluster_active{job="c", instance="b"}', values: '1x30'"#
        ],
        "MartletClusterUnlinked": [
            #"series: 'martlet_cluster_active{job="c", instance="a"}', values: '0x30'"#,
            #"series: 'martlet_cluster_active{job="c", instance="b"}', values: '1x30'"#,
        ],
        "MartletClusterBehind": [
            #"series: 'martlet_cluster_applied_row{job="c", instance="b"}', values: '0+60x30'"#
        ],
    ]

    /// Series that fire each alert, and those that do not.
    private static let conditions:
        [(alert: String, series: String, firing: String, quiet: String)] = [
            (
                "MartletBridgeKeyRefused",
                #"martlet_bridge_answers_total{answer="key_refused", instance="a"}"#, "0+1x30",
                "7x30"
            ),
            (
                "MartletClusterInactive", #"martlet_cluster_active{job="c", instance="a"}"#,
                "0x30", "1x30"
            ),
            (
                "MartletClusterTwoActive", #"martlet_cluster_active{job="c", instance="a"}"#,
                "1x30", "0x30"
            ),
            (
                "MartletClusterUnlinked", #"martlet_cluster_link_up{job="c", instance="a"}"#,
                "0x30", "1x30"
            ),
            (
                "MartletClusterDrained", #"martlet_cluster_drained{job="c", instance="a"}"#,
                "1x30", "0x30"
            ),
            ("MartletClusterStopped", #"martlet_cluster_stopped{instance="a"}"#, "1x30", "0x30"),
            (
                "MartletClusterLogRefusing", #"martlet_cluster_log_refusing{instance="a"}"#,
                "1x30", "0x30"
            ),
            (
                "MartletClusterSilence", #"martlet_cluster_silence_seconds{instance="a"}"#,
                "0+60x30", "1x30"
            ),
            // Rows of half a minute ago, with a reading of each minute: a node may lack the newest rows.
            (
                "MartletClusterBehind", #"martlet_cluster_applied_row{job="c", instance="a"}"#,
                "0+30x30", "0+59x30"
            ),
            ("MartletDown", #"up{job="martlet", instance="a"}"#, "0x30", "1x30"),
            ("MartletHanging", #"martlet_silent_seconds{instance="a"}"#, "0+60x30", "9x30"),
            ("MartletStoreRefusing", #"martlet_store_refusing{instance="a"}"#, "1x30", "0x30"),
            ("MartletDiskShort", #"martlet_disk_short{instance="a"}"#, "1x30", "0x30"),
            (
                "MartletDiskSlow",
                #"martlet_journal_write_duration_seconds_bucket{instance="a", le="0.1"}"#,
                "0+600x30",
                "0x30"
            ),
            (
                "MartletCommitsSlow",
                #"martlet_commit_duration_seconds_bucket{instance="a", le="0.5"}"#, "0+600x30",
                "0x30"
            ),
            (
                "MartletCommandsWaiting", #"martlet_commands_waiting{instance="a"}"#, "40000x30",
                "9x30"
            ),
            (
                "MartletFirstDeliveriesLate",
                #"martlet_first_delivery_duration_seconds_bucket{instance="a", le="2.5"}"#,
                "0+600x30",
                "0x30"
            ),
            ("MartletFanoutsDeferred", #"martlet_fanouts_deferred{instance="a"}"#, "3x30", "0x30"),
            (
                "MartletUnavailable",
                #"martlet_refusals_total{cause="UNAVAILABLE", instance="a"}"#, "0+600x30", "0+6x30"
            ),
            (
                "MartletStrangers", #"martlet_strangers_turned_away_total{instance="a"}"#,
                "0+60000x30", "0+60x30"
            ),
            (
                "MartletTLSFailures", #"martlet_tls_failures_total{instance="a"}"#, "0+6000x30",
                "0x30"
            ),
            ("MartletDiskFilling", #"martlet_disk_free_bytes{instance="a"}"#, "10x30", "90x30"),
        ]

    @Test(
        "OPS-10 each alert fires on its condition, and rests without",
        .enabled(if: promtool != nil, "needs promtool of the Debian package prometheus"))
    func fires() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let rules = try String(contentsOf: Self.rules, encoding: .utf8)
        let alerts = rules.matches(of: /alert: (\w+)/).map { String($0.1) }
        #expect(Set(alerts) == Set(Self.conditions.map(\.alert)))
        var text = "rule_files: ['\(Self.rules.path)']\nevaluation_interval: 1m\ntests:\n"
        for one in Self.conditions {
            // The slowest bucket of a histogram counts all, and the next one below counts none.
            let isHistogram = one.series.contains("_bucket")
            for (values, isFiring) in [(one.firing, true), (one.quiet, false)] {
                text += "  - interval: 1m\n    input_series:\n"
                text += "      - {series: '\(one.series)', values: '\(values)'}\n"
                if isHistogram {
                    let all = one.series.replacing(/le="[\d.]+"/, with: #"le="+Inf""#)
                    let below = one.series.replacing(/le="[\d.]+"/, with: #"le="0.0001""#)
                    text += "      - {series: '\(all)', values: '\(values)'}\n"
                    text += "      - {series: '\(below)', values: '0x30'}\n"
                }
                for series in Self.beside[one.alert] ?? [] { text += "      - {\(series)}\n" }
                text += "    promql_expr_test:\n"
                text +=
                    #"      - expr: count(ALERTS{alertname="\#(one.alert)", alertstate="firing"})"#
                text += "\n        eval_time: 25m\n        exp_samples: "
                text += isFiring ? "[{labels: '{}', value: 1}]\n" : "[]\n"
            }
        }
        try Data(text.utf8).write(to: desk.folder.appending(path: "tests.yml"))
        for arguments in [["check", "rules", Self.rules.path], ["test", "rules", "tests.yml"]] {
            let process = Process()
            process.executableURL = URL(filePath: try #require(Self.promtool))
            process.arguments = arguments
            process.currentDirectoryURL = desk.folder
            let pipe = Pipe()
            process.standardOutput = pipe
            process.standardError = pipe
            try process.run()
            let said = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            #expect(process.terminationStatus == 0, "\(String(decoding: said, as: UTF8.self))")
        }
    }
}
