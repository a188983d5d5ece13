// SPDX-License-Identifier: Apache-2.0
//
// Every refusal over HTTP is counted once, by the gateway or by the broker, and for a project where a right credential names
// it (OPS-10). Rests on GatewayWorld.

import Martlet
import MartletGateway
import Testing

@Suite("Gateway: counted refusals", .timeLimit(.minutes(1)))
struct RefusalCountTests {
    struct Refused: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var method = GatewayCall.Method.post
        var path = "/v1/projects/tides/messages:send"
        var body = ""
        /// nil: the project's server key.
        var authorization: String?
        var cause: String
        var isOfProject = true
    }

    @Test(
        "OPS-10 a refusal is counted once, with its cause, and with the project of a right credential",
        arguments: [
            Refused(testDescription: "no JSON", body: "{", cause: "INVALID_ARGUMENT"),
            Refused(
                testDescription: "a field of no message", body: #"{"message":{"topik":"a"}}"#,
                cause: "INVALID_ARGUMENT"),
            Refused(
                testDescription: "another project", path: "/v1/projects/storms/messages:send",
                body: #"{"message":{"topic":"a"}}"#, cause: "PERMISSION_DENIED"),
            Refused(
                testDescription: "what the broker refuses",
                body: #"{"message":{"topic":"a b"}}"#, cause: "INVALID_ARGUMENT"),
            Refused(
                testDescription: "a legacy request that is no JSON", path: "/fcm/send", body: "{",
                cause: "INVALID_ARGUMENT"),
            Refused(
                testDescription: "no credential", authorization: "", cause: "UNAUTHENTICATED",
                isOfProject: false),
            Refused(
                testDescription: "a wrong credential", authorization: "Bearer wrong",
                cause: "UNAUTHENTICATED", isOfProject: false),
            Refused(
                testDescription: "an exchange without an assertion", path: "/token",
                body: "grant_type=none", authorization: "", cause: "INVALID_ARGUMENT",
                isOfProject: false),
            Refused(
                testDescription: "another method", method: .get, cause: "INVALID_ARGUMENT",
                isOfProject: false),
            Refused(
                testDescription: "an unknown path", path: "/v2/send", cause: "NOT_FOUND",
                isOfProject: false),
        ])
    func counted(refused: Refused) async throws {
        let world = try await GatewayWorld.open()
        let headers = refused.authorization.map { text in
            text.isEmpty ? [] : [(name: "authorization", value: text)]
        }
        let answer = try await world.call(
            refused.method, refused.path, refused.body, headers: headers)
        #expect(answer.status >= 400, "\(answer)")
        let lines = world.broker.metricsText.split(separator: "\n").filter { line in
            line.hasPrefix("martlet_refusals_total{") && !line.hasSuffix(" 0")
                || line.hasPrefix("martlet_project_refusals_total{")
        }
        let cause = #"cause="\#(refused.cause)"} 1"#
        let project = #"martlet_project_refusals_total{project="tides","#
        #expect(
            Set(lines.map { String($0) })
                == Set(
                    ["martlet_refusals_total{" + cause]
                        + (refused.isOfProject ? [project + cause] : [])))
        try await world.broker.close()
    }
}
