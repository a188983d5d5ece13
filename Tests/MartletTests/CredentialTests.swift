// SPDX-License-Identifier: Apache-2.0
//
// Who may connect and what each role may do (REG), over real sockets.

import Foundation
import Martlet
import MartletWire
import Testing

@Suite("Registration and credentials")
struct CredentialTests {
    @Test("REG-1 a device registers and gets a token and a key that no other has")
    func registers() async throws {
        let test = try await TestBroker.open()
        var seen: Set<String> = []
        for _ in 0..<50 {
            let (_, credentials) = try test.newDevice()
            #expect(credentials.token.utf8.count == 32)
            #expect(credentials.deviceKey.utf8.count == 43)
            let isURLSafe = credentials.token.utf8.allSatisfy { byte in
                TopicName.isAllowed(byte)
            }
            #expect(isURLSafe)
            #expect(seen.insert(credentials.token).inserted)
            #expect(seen.insert(credentials.deviceKey).inserted)
        }
        #expect(try test.broker.project(TestBroker.project).instanceCount == 50)
        try await test.broker.close()
    }

    @Test("REG-1 registering with an unknown project or a bad app name is refused")
    func refusesBadRegistrations() async throws {
        let test = try await TestBroker.open()
        for (project, app, word) in [
            ("nowhere", "com.example.tides", ErrorWord.permissionDenied),
            (TestBroker.project, "", .invalidArgument),
            (TestBroker.project, "com example", .invalidArgument),
            (TestBroker.project, String(repeating: "a", count: 256), .invalidArgument),
        ] {
            let peer = try test.peer()
            try peer.send(.hello(.newDevice(projectID: project, appName: app, platform: .web)))
            let error = try peer.error()
            #expect(error.word == word)
            try peer.waitForEnd()
        }
        try await test.broker.close()
    }

    @Test("GW-11 a page may name its project by the sender ID")
    func namedProjects() async throws {
        let test = try await TestBroker.open()
        let known = try test.broker.project(TestBroker.project)
        #expect(try test.broker.projectID(named: String(known.senderID)) == known.id)
        #expect(try test.broker.projectID(named: known.id) == known.id)
        for text in ["nowhere", "000000000000", "\(known.senderID)0", ""] {
            #expect(try test.broker.projectID(named: text) == text)
        }
        try await test.broker.close()
    }

    @Test("REG-2 a wrong key, an unknown token and another project's token are refused")
    func refusesForeignDevices() async throws {
        let test = try await TestBroker.open()
        try await test.broker.createOpenProject("other")
        let (_, mine) = try test.newDevice()
        let (_, another) = try test.newDevice()
        let cases: [(String, String, String, ErrorWord)] = [
            (TestBroker.project, mine.token, another.deviceKey, .unauthenticated),
            (TestBroker.project, mine.token, "", .unauthenticated),
            (TestBroker.project, mine.token, mine.token, .unauthenticated),
            (TestBroker.project, String(repeating: "A", count: 32), mine.deviceKey, .unregistered),
            (TestBroker.project, "short", mine.deviceKey, .invalidArgument),
            ("other", mine.token, mine.deviceKey, .unregistered),
            ("nowhere", mine.token, mine.deviceKey, .unregistered),
        ]
        for (project, token, key, word) in cases {
            let peer = try test.peer()
            try peer.send(
                .hello(
                    .device(
                        projectID: project, token: token, deviceKey: key, state: .active,
                        unconfirmed: [])))
            let error = try peer.error()
            #expect(error.word == word)
            // What is told must not help to guess, nor repeat what is secret.
            #expect(key.isEmpty || !error.description.contains(key))
            try peer.waitForEnd()
        }
        let peer = try test.connect(mine)
        try peer.roundTrip()
        try await test.broker.close()
    }

    @Test("REG-3 an unregistered instance's token is invalid and its topics are gone")
    func unregisters() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        _ = try device.subscribe("weather", "dogs")
        let sender = try test.sender()
        #expect(try sender.send(to: .topic("weather")).recipients == 1)
        _ = try device.message()
        try device.send(.unregister(UnregisterRequest(correlation: 9)))
        let frame = try device.next()
        #expect(frame == .done(Done(correlation: 9)))
        try device.waitForEnd()

        #expect(throws: MartletError.self) { try sender.send(to: .token(credentials.token)) }
        do {
            try sender.send(to: .token(credentials.token))
        } catch let error as MartletError {
            #expect(error.word == .unregistered)
        }
        #expect(try sender.send(to: .topic("weather")).recipients == 0)
        #expect(try test.broker.topics(in: TestBroker.project).entries.isEmpty)
        #expect(throws: MartletError.self) { try test.connect(credentials) }
        try await test.broker.close()
    }

    @Test("REG-5 wrong, revoked and foreign server keys are refused")
    func refusesForeignSenders() async throws {
        let test = try await TestBroker.open()
        try await test.broker.createOpenProject("other")
        let foreign = try await test.broker.createServerKey(named: "f", in: "other")
        let revoked = try await test.broker.createServerKey(named: "r", in: TestBroker.project)
        try await test.broker.revokeServerKey(revoked.id, in: TestBroker.project)
        let forged = test.serverKey.dropLast() + (test.serverKey.hasSuffix("A") ? "B" : "A")
        for key in [foreign.text, revoked.text, String(forged), "", ".", "x.y", revoked.id] {
            let peer = try test.peer()
            try peer.send(.hello(.sender(projectID: TestBroker.project, serverKey: key)))
            #expect(try peer.error().word == .unauthenticated)
            try peer.waitForEnd()
        }
        let sender = try test.sender()
        try sender.roundTrip()
        #expect(
            try await test.broker.serverKeys(in: TestBroker.project).map(\.isRevoked).sorted {
                !$0 && $1
            }
                == [false, true])
        try await test.broker.close()
    }

    @Test("REG-9 a revoked server key ends the connections that were opened with it, and no others")
    func revokedServerKey() async throws {
        let test = try await TestBroker.open()
        let revoked = try await test.broker.createServerKey(named: "r", in: TestBroker.project)
        let peers = try (0..<3).map { _ in
            let peer = try test.peer()
            try peer.send(.hello(.sender(projectID: TestBroker.project, serverKey: revoked.text)))
            _ = try peer.next()
            return peer
        }
        try peers[1].send(.listenReceipts(ListenReceiptsRequest(correlation: 1)))
        _ = try peers[1].next()
        let other = try test.sender()
        try await test.broker.revokeServerKey(revoked.id, in: TestBroker.project)
        for peer in peers {
            #expect(try peer.error().word == .unauthenticated)
            try peer.waitForEnd()
        }
        try other.roundTrip()
        #expect(try other.send(to: .topic("t")).recipients == 0)
        try await test.broker.close()
    }

    /// An RSA key of 2048 bits, as openssl writes it; nobody has the private one.
    private static let publicKey = Array(
        Data(
            base64Encoded: """
                MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAvVj7IYeHl4ifshwNGHKkO7U1lxVw\
                3ptLomS9slU84s2lp88Go4q0EktH13ghiDuepLGt0WIqoGqFpqLgRsod3etfHcvSc/MQJG4n\
                fWixdg1b6DTOeOVy/GL6/ZDao3SzQW2gTke2u+6/Vee5StHEwhbZfW3friyU3IMXOe/tRdYy\
                tKQoB16uVSVtG/rBeKL6NXLYcykIVQZHHs5ZCX9BInfqDI9MawqJBbOyXrS8nh3hehqbqe9/\
                Q4m1t3uU9Y4OnkWPWUmy8nUTcJMXdxZMNwN9bhhNnFR6V/4kx9MDt1xrQ0ukOPup3E9et+zn\
                XhFn5yWlEZjtdqSr1ZpTo2A0rwIDAQAB
                """) ?? Data())

    @Test("REG-9 an access token that expires, or whose key is revoked, ends its connection")
    func endedTokens() async throws {
        let test = try await TestBroker.open()
        let account = "0123456789abcdef"
        try await test.broker.createServiceAccount(
            keyID: account, named: "a", clientEmail: "a@example.com", publicKey: Self.publicKey,
            in: TestBroker.project)
        func peer(lifeSeconds: UInt32) throws -> Peer {
            let token = try test.broker.mintAccessToken(for: account, lifeSeconds: lifeSeconds)
            let peer = try test.peer()
            try peer.send(.hello(.sender(projectID: TestBroker.project, serverKey: token)))
            _ = try peer.next()
            return peer
        }
        let short = try peer(lifeSeconds: 1)
        let long = try peer(lifeSeconds: 3600)
        #expect(try short.error().word == .unauthenticated)
        try short.waitForEnd()
        try long.roundTrip()
        try await test.broker.revokeServiceAccount(account, in: TestBroker.project)
        #expect(try long.error().word == .unauthenticated)
        try long.waitForEnd()
        let sender = try test.sender()
        try sender.roundTrip()
        try await test.broker.close()
    }

    @Test("REG-5 a device's credential never authorises what senders or administrators do")
    func separatesRoles() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        let requests: [ClientFrame] = [
            .send(SendRequest(correlation: 1, target: .token(credentials.token), message: [])),
            .request(
                ChangeTopicRequest(
                    correlation: 2, operation: .subscribe, topic: "t", tokens: [credentials.token])),
            .request(AudienceRequest(correlation: 3, condition: "'a' in topics")),
            .request(ListTopicsRequest(correlation: 4, after: "", limit: 10)),
            .request(CreateProjectRequest(correlation: 5, projectID: "mine")),
            .request(
                CreateKeyRequest(correlation: 6, projectID: TestBroker.project, name: "mine")),
            .request(ListKeysRequest(correlation: 7, projectID: TestBroker.project)),
        ]
        for request in requests {
            try device.send(request)
            let frame = try device.next()
            guard case .error(let error) = frame else {
                Issue.record("\(frame)")
                continue
            }
            #expect(error.correlation == request.correlation)
            #expect(error.error.word == .permissionDenied)
        }
        let sender = try test.sender()
        try sender.send(
            .request(
                CreateKeyRequest(correlation: 6, projectID: TestBroker.project, name: "mine")))
        #expect(try sender.error().word == .permissionDenied)
        try sender.send(.acknowledge(Acknowledge(through: 1)))
        // An acknowledgement has no correlation: there is nothing to answer but the connection.
        #expect(try sender.error().word == .permissionDenied)
        try await test.broker.close()
    }

    @Test("an administrator needs the key of the data folder")
    func administrates() async throws {
        let test = try await TestBroker.open()
        let stranger = try test.peer()
        try stranger.send(
            .hello(.administrator(administratorKey: test.serverKey, projectID: "")))
        #expect(try stranger.error().word == .unauthenticated)

        let administrator = try test.peer()
        try administrator.send(
            .hello(
                .administrator(
                    administratorKey: test.broker.administratorKey, projectID: "")))
        #expect(try administrator.welcome().senderID == 0)
        try administrator.send(
            .request(CreateProjectRequest(correlation: 1, projectID: "second")))
        guard let created = try administrator.next().answer(as: ProjectResult.self) else {
            Issue.record("no project")
            return
        }
        #expect(created.project.id == "second")
        try administrator.send(
            .request(CreateKeyRequest(correlation: 2, projectID: "second", name: "n")))
        guard let key = try administrator.next().answer(as: KeyResult.self) else {
            Issue.record("no key")
            return
        }
        let sender = try test.peer()
        try sender.send(.hello(.sender(projectID: "second", serverKey: key.text)))
        _ = try sender.welcome()
        try await test.broker.close()
    }
}
