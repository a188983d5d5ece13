// SPDX-License-Identifier: Apache-2.0
//
// Routes and refusals without HTTP: which path leads where, and what an SDK reads.
// Rests on MartletGateway.

import MartletGateway
import Testing

@Suite("Gateway: routes and refusals")
struct RouteTests {
    @Test("GW-2 the lines of a list header are one list, in their order (RFC 9110 5.3)")
    func lists() {
        let call = GatewayCall(
            .get, path: [],
            headers: [("crypto-key", "dh=a"), ("host", "b"), ("crypto-key", "p256ecdsa=c;d=e")])
        #expect(call.list("crypto-key") == "dh=a, p256ecdsa=c;d=e")
        #expect(call.list("host") == "b" && call.list("encryption") == nil)
    }

    @Test(
        "GW-2 a pattern takes its parts and nothing else",
        arguments: [
            ("v1/projects/{p}/messages:send", "/v1/projects/tides/messages:send", "tides"),
            ("v1/projects/{p}/messages:send", "/v1/projects/tides/messages%3Asend", "tides"),
            ("v1/projects/{p}/messages:send", "/v1/projects/tides/messages:sends", nil),
            ("v1/projects/{p}/messages:send", "/v1/projects//messages:send", nil),
            ("v1/projects/{p}/messages:send", "/v1/projects/a/b/messages:send", nil),
            ("v1/projects/{p}/messages:send", "//v1/projects/tides/messages:send", "tides"),
            ("v1/projects/{p}/messages:send", "/v1/projects/tides/messages:send/", nil),
            ("topics/{p}:subscribe", "/topics/a:subscribe", "a"),
            ("topics/{p}:subscribe", "/topics/a%25:subscribe?x=y", "a%"),
            ("topics/{p}:subscribe", "/topics/:subscribe", nil),
            ("topics/{p}:subscribe", "/topics/a:unsubscribe", nil),
        ])
    func patterns(_ pattern: String, _ target: String, _ expected: String?) throws {
        let route = Route("test", .get, pattern) { _, _ in GatewayAnswer() }
        let call = try #require(GatewayCall(.get, target: target))
        #expect(route.match(call.path)?["p"] == expected)
    }

    @Test(
        "GW-2 a path whose letters or digits are escaped is no path: a proxy's rule would not know it",
        arguments: [
            ("/%6detrics", false), ("/metric%73", false), ("/%4Detrics", false),
            ("/topics/a%31", false), ("/v1/projects/t/messages%3Asend", true),
            ("/topics/a%2Fb%2D%5F%7E", true), ("/topics/%C3%A9", true), ("/metrics?q=%6d", true),
        ])
    func escapes(_ target: String, _ isPath: Bool) {
        #expect((GatewayCall(.get, target: target) != nil) == isPath)
    }
}
