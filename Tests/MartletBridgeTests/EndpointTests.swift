// SPDX-License-Identifier: Apache-2.0
//
// What a sender takes as an endpoint, and what the answers of push services mean.

import Martlet
import MartletBridge
import Testing

@Suite("GW-11 Endpoints and answers of push services")
struct EndpointTests {
    @Test(
        "GW-11 an endpoint names a host in one way",
        arguments: [
            (
                "https://push.example.org/wpush/v2/abc", "https://push.example.org",
                "push.example.org"
            ),
            ("HTTPS://Push.Example.ORG:443/a?b=c", "https://push.example.org", "push.example.org"),
            (
                "https://push.example.org:8443/a", "https://push.example.org:8443",
                "push.example.org"
            ),
            ("https://127.0.0.1/a", "https://127.0.0.1", "127.0.0.1"),
            ("https://[2001:DB8::1]:444/a", "https://[2001:db8::1]:444", "2001:db8::1"),
            ("https://push.example.org?token=x%2F", "https://push.example.org", "push.example.org"),
        ])
    func endpoints(text: String, origin: String, host: String) throws {
        let endpoint = try PushEndpoint(text)
        #expect(endpoint.origin == origin)
        #expect(endpoint.host == host)
        #expect(endpoint.url.hasPrefix(origin + "/"))
    }

    @Test(
        "GW-11 other texts are no endpoints",
        arguments: [
            "", "push.example.org/a", "http://push.example.org/a", "ftp://push.example.org/",
            "https://", "https:///a", "https://user@push.example.org/a",
            "https://user:secret@push.example.org/a", "https://push.example.org:/a",
            "https://push.example.org:0/a", "https://push.example.org:65536/a",
            "https://push.example.org:+80/a", "https://push.example.org/a#b",
            "https://push.example.org/a b", "https://push.example.org/ä", "https://püsh.example/",
            "https://push.example.org\\@localhost/", "https://push%2Eexample.org/",
            "https://push.example.org/a\r\nx: y", "https://[::1/a", "https://[]/a",
            "https://[fe80::1%25lo]/a", "https://[127.0.0.1]/a",
            "https://push.example.org/" + String(repeating: "a", count: 2048),
        ])
    func noEndpoints(text: String) {
        #expect(throws: MartletError.self) { try PushEndpoint(text) }
    }

    /// Source: RFC 9110, section 5.6.7, for the date; `date -d` for the seconds.
    @Test(
        "GW-11 the status and Retry-After of an answer say what to do",
        arguments: [
            (201, nil, PushAnswer.taken), (200, "5", .taken), (202, nil, .taken),
            (204, nil, .taken), (404, nil, .gone(status: 404)), (410, "5", .gone(status: 410)),
            (413, nil, .tooLong), (301, nil, .refused(status: 301, reason: "r")),
            (400, nil, .refused(status: 400, reason: "r")),
            (401, nil, .refused(status: 401, reason: "r")),
            (403, "5", .refused(status: 403, reason: "r")),
            (429, "7", .later(status: 429, reason: "r", seconds: 7)),
            (429, nil, .later(status: 429, reason: "r", seconds: nil)),
            (500, nil, .later(status: 500, reason: "r", seconds: nil)),
            (503, "0", .later(status: 503, reason: "r", seconds: 0)),
            (503, "-1", .later(status: 503, reason: "r", seconds: nil)),
            (503, "soon", .later(status: 503, reason: "r", seconds: nil)),
            (503, "99999999", .later(status: 503, reason: "r", seconds: 86_400)),
            (
                503, "Sun, 06 Nov 1994 08:49:37 GMT",
                .later(status: 503, reason: "r", seconds: 17)
            ),
            (
                503, "Thu, 29 Feb 1996 08:49:37 GMT",
                .later(status: 503, reason: "r", seconds: 86_400)
            ),
            (
                503, "Sun, 06 Nov 1994 08:49:00 GMT",
                .later(status: 503, reason: "r", seconds: 0)
            ),
            (503, "Sun, 06 Now 1994 08:49:37 GMT", .later(status: 503, reason: "r", seconds: nil)),
        ] as [(Int, String?, PushAnswer)])
    func answers(status: Int, retryAfter: String?, answer: PushAnswer) {
        let read = PushAnswer(
            status: status, retryAfter: retryAfter, reason: "r", now: 784_111_777 - 17)
        #expect(read == answer)
    }

    /// Source: `printf 'high water' | openssl dgst -sha256 -binary | head -c 24 | basenc --base64url`.
    @Test(
        "GW-11 COL-1 a collapse key is a topic as it stands, or a digest",
        arguments: [
            ("tides_1", "tides_1"), ("A-z_09", "A-z_09"), ("", nil),
            (String(repeating: "x", count: 32), String(repeating: "x", count: 32)),
            ("high water", "uZdzb3PmC9_G_eQdn3dGODFo50aK4IWs"),
            // Lengths that Base64URL cannot have: one more than a multiple of four.
            ("x", "LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTb"),
            ("tides", "DnFP2S91OONTG2HA7rf5xw5ER1vnVX34"),
            ("collie-update", "pWMpl1lIwwHRmSQYcUD_XmCjmWKebzh8"),
            (String(repeating: "x", count: 29), "FwIkWseFgcMhh1C5qoxFQD5axIW9QbQo"),
            (String(repeating: "x", count: 33), "EbpVo6fB7g-OuIZ9xApixnJA60peoSXu"),
        ] as [(String, String?)])
    func topics(key: String, topic: String?) {
        #expect(PushTopic.text(for: key) == topic)
        #expect(PushTopic.text(for: key + "ä")?.utf8.count == 32)
    }
}
