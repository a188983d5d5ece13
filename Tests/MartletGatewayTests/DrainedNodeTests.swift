// SPDX-License-Identifier: Apache-2.0
//
// The gateway of a drained node: sends are turned away to other nodes, and everything else is answered. Rests on
// ServedGateway.

import Martlet
import MartletGateway
import Testing

extension OverHTTP {
    @Suite("Gateway: a drained node", .serialized, .timeLimit(.minutes(1)))
    struct DrainedNodeTests {
        private static let message = #"{"message":{"topic":"t","data":{"a":"b"}}}"#

        @Test("OPS-7 sends are refused with 503 and Retry-After, and their connection ends")
        func turnsAway() async throws {
            let sign = DrainSign()
            try await ServedGateway.run(drain: sign) { served in
                let headers = [
                    ("Authorization", "Bearer \(served.serverKey)"),
                    ("Content-Type", "application/json"),
                ]
                let path = "/v1/projects/tides/messages:send"
                let peer = try served.peer()
                peer.request("POST", path, headers: headers, Self.message)
                #expect(try peer.answer().status == 200)
                sign.set(true)
                // A send of a stranger is refused as on any node.
                let stranger = try served.peer()
                stranger.request("POST", path, Self.message)
                #expect(try stranger.answer().status == 401)
                peer.request("POST", path, headers: headers, Self.message)
                let refused = try peer.answer()
                #expect(refused.status == 503)
                #expect(refused.headers["retry-after"] == "1")
                #expect(refused.headers["connection"] == "close")
                #expect(refused.body.contains("UNAVAILABLE"))
                try peer.end()
                // The interface before v1 answers in its own form.
                let legacy = try served.peer()
                let key = [
                    ("Authorization", "key=\(served.serverKey)"),
                    ("Content-Type", "application/json"),
                ]
                legacy.request("POST", "/fcm/send", headers: key, #"{"to":"/topics/t"}"#)
                let answer = try legacy.answer()
                #expect(answer.status == 503)
                #expect(answer.headers["retry-after"] == "1")
                try legacy.end()
                // Everything else goes on.
                let other = try served.peer()
                other.request("GET", "/healthz")
                #expect(try other.answer().status == 200)
                other.request(
                    "POST", "/iid/v1:batchAdd", headers: headers,
                    #"{"to":"/topics/t","registration_tokens":["x"]}"#)
                #expect(try other.answer().status == 200)
                sign.set(false)
                other.request("POST", path, headers: headers, Self.message)
                #expect(try other.answer().status == 200)
            }
        }
    }
}
