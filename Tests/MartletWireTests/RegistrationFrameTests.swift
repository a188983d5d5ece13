// SPDX-License-Identifier: Apache-2.0
//
// The frames of registration keys, ticket keys, apps and policies: as the vectors have them, with random contents, and the one
// rule between their fields (REG-7, REG-8, TOP-10).

import MartletBase
import MartletWire
import Testing

private let now = Instant(millisecondsSince1970: 1_760_000_000_000)
private let later = Instant(millisecondsSince1970: 1_760_000_000_001)

/// Vectors of an administrator's requests about new devices, by file name.
let registrationVectors: [String: AnyFrame] = [
    "create-registration-key": .client(
        .request(CreateRegistrationKeyRequest(correlation: 50, projectID: "tides", name: "büro"))),
    "registration-key": .broker(
        .answer(
            RegistrationKeyResult(correlation: 50, keyID: "r1", text: "r1.secret"))),
    "revoke-registration-key": .client(
        .request(RevokeRegistrationKeyRequest(correlation: 51, projectID: "tides", keyID: "r1"))),
    "list-registration-keys": .client(
        .request(ListRegistrationKeysRequest(correlation: 52, projectID: "tides"))),
    "registration-key-page": .broker(
        .answer(
            RegistrationKeyPage(
                correlation: 52,
                entries: [
                    .init(id: "r1", name: "büro", created: now, isRevoked: true),
                    .init(id: "r2", name: "", created: later, isRevoked: false),
                ]))),
    "add-ticket-secret": .client(
        .request(
            AddTicketKeyRequest(
                correlation: 53, projectID: "tides", keyID: "login", name: "büro",
                algorithm: .hs256, secret: [1, 2, 3, 255]))),
    "add-ticket-key": .client(
        .request(
            AddTicketKeyRequest(
                correlation: 54, projectID: "tides", keyID: "login-2", name: "",
                algorithm: .es256, publicKey: "-----BEGIN PUBLIC KEY-----"))),
    "revoke-ticket-key": .client(
        .request(RevokeTicketKeyRequest(correlation: 55, projectID: "tides", keyID: "login"))),
    "list-ticket-keys": .client(
        .request(ListTicketKeysRequest(correlation: 56, projectID: "tides"))),
    "ticket-key-page": .broker(
        .answer(
            TicketKeyPage(
                correlation: 56,
                entries: [
                    .init(
                        id: "login", name: "büro", algorithm: .hs256, created: now,
                        isRevoked: true),
                    .init(
                        id: "login-2", name: "", algorithm: .es256, created: later,
                        isRevoked: false),
                ]))),
    "apns-token": .client(
        .apnsToken(
            APNsTokenRequest(correlation: 6, token: [0xA1, 0xB2, 0xC3, 0xD4], isSandbox: true))),
    "add-bridge-key": .client(
        .request(
            AddBridgeKeyRequest(
                correlation: 60, projectID: "tides", kind: .apns, keyID: "ABC123DEFG",
                owner: "DEF123GHIJ", privateKey: "-----BEGIN PRIVATE KEY-----"))),
    "remove-bridge-key": .client(
        .request(
            RemoveBridgeKeyRequest(
                correlation: 61, projectID: "tides", kind: .apns, keyID: "ABC123DEFG"))),
    "list-bridge-keys": .client(
        .request(ListBridgeKeysRequest(correlation: 62, projectID: "tides"))),
    "bridge-key-page": .broker(
        .answer(
            BridgeKeyPage(
                correlation: 62,
                entries: [
                    .init(kind: .apns, id: "ABC123DEFG", owner: "DEF123GHIJ", created: now),
                    .init(
                        kind: .webPush, id: "BP4z", owner: "mailto:a@example.com", created: later),
                ]))),
    "create-app": .client(
        .request(
            CreateAppRequest(
                correlation: 57, projectID: "tides", name: "com.example.tides", platform: .apple))),
    "delete-app": .client(
        .request(
            DeleteAppRequest(
                correlation: 58, projectID: "tides", name: "com.example.tides",
                platform: .android))),
    "list-apps": .client(.request(ListAppsRequest(correlation: 59, projectID: "tides"))),
    "app-page": .broker(
        .answer(
            AppPage(
                correlation: 59,
                entries: [
                    .init(
                        name: "com.example.tides", platform: .apple,
                        instanceCount: 3_000_000_000, isBeingDeleted: false),
                    .init(
                        name: "com.example.gauge", platform: .web, instanceCount: 1,
                        isBeingDeleted: true),
                ]))),
    "find-policies": .client(.request(FindPoliciesRequest(correlation: 60, projectID: "tides"))),
    "policies": .broker(.answer(PoliciesResult(correlation: 60, policies: ProjectPolicies()))),
    "policies-prefixes": .broker(
        .answer(
            PoliciesResult(
                correlation: 61,
                policies: ProjectPolicies(
                    registration: .ticket, topics: .prefixes(["news.", "user."]))))),
    "change-policies": .client(
        .request(
            ChangePoliciesRequest(
                correlation: 62, projectID: "tides", registration: .open,
                topics: .noTopics))),
    "change-policies-topics": .client(
        .request(
            ChangePoliciesRequest(
                correlation: 63, projectID: "tides", topics: .prefixes(["news."])))),
]

extension RandomFrames {
    mutating func policies() -> TopicPolicy {
        [.all, .noTopics, .prefixes(list { $0.text() })].randomElement(using: &random)!
    }

    mutating func registration() -> ClientFrame {
        switch Int.random(in: 0..<15, using: &random) {
        case 11:
            .apnsToken(
                APNsTokenRequest(
                    correlation: correlation(), token: bytes(), isSandbox: flag(), bundle: text()))
        case 12:
            .request(
                AddBridgeKeyRequest(
                    correlation: correlation(), projectID: text(), kind: one(), keyID: text(),
                    owner: text(), privateKey: text()))
        case 13:
            .request(
                RemoveBridgeKeyRequest(
                    correlation: correlation(), projectID: text(), kind: one(), keyID: text()))
        case 14: .request(ListBridgeKeysRequest(correlation: correlation(), projectID: text()))
        case 0:
            .request(
                CreateRegistrationKeyRequest(
                    correlation: correlation(), projectID: text(), name: text()))
        case 1:
            .request(
                RevokeRegistrationKeyRequest(
                    correlation: correlation(), projectID: text(), keyID: text()))
        case 2:
            .request(ListRegistrationKeysRequest(correlation: correlation(), projectID: text()))
        case 3:
            .request(
                AddTicketKeyRequest(
                    correlation: correlation(), projectID: text(), keyID: text(), name: text(),
                    algorithm: one(), secret: bytes(), publicKey: text()))
        case 4:
            .request(
                RevokeTicketKeyRequest(
                    correlation: correlation(), projectID: text(), keyID: text()))
        case 5: .request(ListTicketKeysRequest(correlation: correlation(), projectID: text()))
        case 6:
            .request(
                CreateAppRequest(
                    correlation: correlation(), projectID: text(), name: text(), platform: one()))
        case 7:
            .request(
                DeleteAppRequest(
                    correlation: correlation(), projectID: text(), name: text(), platform: one()))
        case 8: .request(ListAppsRequest(correlation: correlation(), projectID: text()))
        case 9: .request(FindPoliciesRequest(correlation: correlation(), projectID: text()))
        default:
            .request(
                ChangePoliciesRequest(
                    correlation: correlation(), projectID: text(),
                    registration: flag() ? nil : one(), topics: flag() ? nil : policies()))
        }
    }

    mutating func registrationAnswer() -> BrokerFrame {
        switch Int.random(in: 0..<6, using: &random) {
        case 5:
            .answer(
                BridgeKeyPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            kind: $0.one(), id: $0.text(), owner: $0.text(),
                            created: $0.instant())
                    }))
        case 0:
            .answer(
                RegistrationKeyResult(
                    correlation: correlation(), keyID: text(), text: text()))
        case 1:
            .answer(
                RegistrationKeyPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            id: $0.text(), name: $0.text(), created: $0.instant(),
                            isRevoked: $0.flag())
                    }))
        case 2:
            .answer(
                TicketKeyPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            id: $0.text(), name: $0.text(), algorithm: $0.one(),
                            created: $0.instant(), isRevoked: $0.flag())
                    }))
        case 3:
            .answer(
                AppPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            name: $0.text(), platform: $0.one(), instanceCount: $0.u64(),
                            isBeingDeleted: $0.flag())
                    }))
        default:
            .answer(
                PoliciesResult(
                    correlation: correlation(),
                    policies: ProjectPolicies(registration: one(), topics: policies())))
        }
    }
}

@Suite struct RegistrationFrameTests {
    /// correlation 1 · registration key · the topic policy · one prefix `a`
    private func policies(_ topics: UInt8, _ prefixes: [UInt8]) throws -> BrokerFrame {
        let body = [1, 0, 0, 0, 1, topics] + prefixes
        return try BrokerFrame.decode(type: FrameType.policies.rawValue, body: body.span.bytes)
    }

    @Test(
        "TOP-10 NET-3 a topic policy has prefixes if it is a policy of prefixes, and at no other time"
    )
    func prefixes() throws {
        let one: [UInt8] = [1, 0, 1, 0, 0x61]
        let known = try policies(3, one)
        #expect(
            known
                == .answer(
                    PoliciesResult(
                        correlation: 1, policies: ProjectPolicies(topics: .prefixes(["a"])))))
        for topics in [1, 2] as [UInt8] {
            #expect(throws: WireError.unknownValue(field: "prefix count", value: 1)) {
                try policies(topics, one)
            }
        }
        // "Unchanged" is for changes alone.
        #expect(throws: WireError.unknownValue(field: "topic policy", value: 0)) {
            try policies(0, [0, 0])
        }
        #expect(throws: WireError.unknownValue(field: "topic policy", value: 4)) {
            try policies(4, [0, 0])
        }
    }
}
