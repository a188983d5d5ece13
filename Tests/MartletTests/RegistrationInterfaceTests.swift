// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about who may register (REG-7), apps (REG-8) and the topics of devices (TOP-10): in the
// broker's process and on a connection. Rests on Support.

import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("An administrator decides who may register", .timeLimit(.minutes(2)))
struct RegistrationInterfaceTests {
    private static let secret = [UInt8](repeating: 7, count: 32)
    /// A key on P-256, as `openssl pkey -pubout` writes it.
    private static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhF9RJorCesrLvAP/Ymy8USyv6Xv0
        7qC28zJK+0PQT/sxtT9ajTtR1t7LRGtpNkcdML2eFGGqFBtvADYfhrMo8g==
        -----END PUBLIC KEY-----
        """

    /// What a request answers or how the request is refused, as text.
    private func told<Answer>(_ ask: () async throws -> Answer) async -> String {
        do { return "\(try await ask())" } catch { return "\(error)" }
    }

    /// Requests of an administrator, with their answers as text.
    private func answers(
        _ administrator: some AdministratorInterface, project id: String
    ) async throws -> [String] {
        try await administrator.createProject(id)
        var answers = ["\(try await administrator.policies(of: id))"]

        let key = try await administrator.createRegistrationKey(named: "büro", in: id)
        #expect(key.text.hasPrefix(key.id + "."))
        try await administrator.revokeRegistrationKey(key.id, in: id)
        let keys = try await administrator.registrationKeys(in: id).filter { $0.id == key.id }
        answers.append("\(keys.map { "\($0.name) \($0.isRevoked)" })")

        try await administrator.addTicketSecret(Self.secret, id: "a", named: "büro", in: id)
        try await administrator.addTicketKey(Self.publicKey, for: .es256, id: "b", in: id)
        try await administrator.revokeTicketKey("a", in: id)
        let ticketKeys = try await administrator.ticketKeys(in: id)
        answers.append(
            "\(ticketKeys.map { "\($0.id) \($0.name) \($0.algorithm) \($0.isRevoked)" })")

        try await administrator.createApp("a.b", on: .web, in: id)
        try await administrator.createApp("a.b", on: .apple, in: id)
        answers.append("\(try await administrator.apps(in: id))")
        try await administrator.deleteApp("a.b", on: .web, in: id)
        while try await administrator.apps(in: id).count > 1 { await Task.yield() }

        try await administrator.setPolicies(registration: .ticket, in: id)
        try await administrator.setPolicies(topics: .prefixes(["news.", "/topics/user."]), in: id)
        answers.append("\(try await administrator.policies(of: id))")
        try await administrator.setPolicies(
            registration: .open, topics: .noTopics, in: id)
        answers.append("\(try await administrator.policies(of: id))")
        return answers + (await refusals(administrator, project: id))
    }

    private func refusals(
        _ administrator: some AdministratorInterface, project id: String
    ) async -> [String] {
        let long = String(repeating: "n", count: 201)
        return [
            await told { try await administrator.createRegistrationKey(named: long, in: id) },
            await told { try await administrator.createRegistrationKey(named: "", in: "none") },
            await told { try await administrator.revokeRegistrationKey("?", in: id) },
            await told { try await administrator.registrationKeys(in: "none") },
            await told { try await administrator.addTicketSecret([1], id: "c", in: id) },
            await told { try await administrator.addTicketSecret(Self.secret, id: "a", in: id) },
            await told { try await administrator.addTicketSecret(Self.secret, id: "?", in: id) },
            await told {
                try await administrator.addTicketKey(Self.publicKey, for: .rs256, id: "c", in: id)
            },
            await told {
                try await administrator.addTicketKey("no key", for: .es256, id: "c", in: id)
            },
            // A public key must not become a secret that everybody knows.
            await told {
                try await administrator.addTicketKey(Self.publicKey, for: .hs256, id: "c", in: id)
            },
            await told { try await administrator.revokeTicketKey("c", in: id) },
            await told { try await administrator.ticketKeys(in: "none") },
            await told { try await administrator.createApp("a.b", on: .apple, in: id) },
            await told { try await administrator.createApp("a b", on: .apple, in: id) },
            await told { try await administrator.deleteApp("c.d", on: .apple, in: id) },
            await told { try await administrator.apps(in: "none") },
            await told { try await administrator.policies(of: "none") },
            await told { try await administrator.setPolicies(topics: .prefixes([]), in: id) },
            await told { try await administrator.setPolicies(topics: .prefixes(["*"]), in: id) },
            await told { try await administrator.setPolicies(registration: .key, in: "none") },
        ]
    }

    @Test(
        "EMB-1 REG-7 REG-8 TOP-10 an administrator in the process and one on a connection get the same answers"
    )
    func sameAnswers() async throws {
        let test = try await TestBroker.open()
        let remote = MartletAdministrator(
            host: "127.0.0.1", port: Int(test.broker.port!),
            administratorKey: test.broker.administratorKey)
        let here = try await answers(test.broker, project: "here")
        #expect(
            here.prefix(6) == [
                "\(ProjectPolicies())", #"["büro true"]"#,
                #"["a büro hs256 true", "b  es256 false"]"#,
                "\([Platform.web, .apple].map { AppSummary(name: "a.b", platform: $0) })",
                "\(ProjectPolicies(registration: .ticket, topics: .prefixes(["news.", "user."])))",
                "\(ProjectPolicies(registration: .open, topics: .noTopics))",
            ])
        let refusals = here.dropFirst(6)
        #expect(refusals.count == 20 && !refusals.contains("()"), "\(refusals)")
        #expect(try await answers(remote, project: "there") == here)
        await remote.close()
        try await test.broker.close()
    }

    @Test("REG-5 a sender and a device may ask none of this")
    func administratorsOnly() async throws {
        let test = try await TestBroker.open()
        let requests: [ClientFrame] = [
            .request(CreateRegistrationKeyRequest(correlation: 1, projectID: "tides", name: "")),
            .request(RevokeRegistrationKeyRequest(correlation: 2, projectID: "tides", keyID: "k")),
            .request(ListRegistrationKeysRequest(correlation: 3, projectID: "tides")),
            .request(
                AddTicketKeyRequest(
                    correlation: 4, projectID: "tides", keyID: "k", name: "", algorithm: .hs256,
                    secret: Self.secret)),
            .request(RevokeTicketKeyRequest(correlation: 5, projectID: "tides", keyID: "k")),
            .request(ListTicketKeysRequest(correlation: 6, projectID: "tides")),
            .request(
                CreateAppRequest(correlation: 7, projectID: "tides", name: "x", platform: .web)),
            .request(
                DeleteAppRequest(correlation: 8, projectID: "tides", name: "a.b", platform: .web)),
            .request(ListAppsRequest(correlation: 9, projectID: "tides")),
            .request(FindPoliciesRequest(correlation: 10, projectID: "tides")),
            .request(
                ChangePoliciesRequest(correlation: 11, projectID: "tides", registration: .key)),
        ]
        let (device, _) = try test.newDevice()
        for peer in [try test.sender(), device] {
            for request in requests {
                try peer.send(request)
                #expect(try peer.error().word == .permissionDenied, "\(request)")
            }
        }
        #expect(try await test.broker.policies(of: "tides").registration == .open)
        #expect(try await test.broker.apps(in: "tides").contains { $0.name == "a.b" })
        try await test.broker.close()
    }

    @Test("REG-7 a frame with a secret and a public key is refused, whatever the algorithm")
    func secretOrPublicKey() async throws {
        let test = try await TestBroker.open()
        let administrator = try test.peer()
        try administrator.send(
            .hello(.administrator(administratorKey: test.broker.administratorKey, projectID: "")))
        _ = try administrator.welcome()
        for algorithm in TicketAlgorithm.allCases {
            try administrator.send(
                .request(
                    AddTicketKeyRequest(
                        correlation: 1, projectID: "tides", keyID: "k", name: "",
                        algorithm: algorithm, secret: Self.secret, publicKey: Self.publicKey)))
            let refusal = try administrator.error()
            #expect(refusal.word == .invalidArgument && refusal.field == "ticket_key")
        }
        #expect(try await test.broker.ticketKeys(in: "tides").isEmpty)
        try await test.broker.close()
    }
}

extension AppSummary {
    /// An app without instances.
    fileprivate init(name: String, platform: Platform) {
        self.init(name: name, platform: platform, instanceCount: 0, isBeingDeleted: false)
    }
}
