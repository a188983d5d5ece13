// SPDX-License-Identifier: Apache-2.0
//
// What an operator reads of refused peers: registrations with a wrong credential (REG-10), and peers on a proxies'
// listener that are no proxy (NET-7). Rests on Support and KeptLog.

import Glibc
import Martlet
import MartletWire
import Testing

@Suite("The log of refused peers", .timeLimit(.minutes(2)))
struct RefusalLogTests {
    private func waitUntil(_ condition: () -> Bool) {
        for _ in 0..<20_000 where !condition() { usleep(1000) }
        #expect(condition())
    }

    @Test(
        "REG-7 REG-10 wrong registration keys and bad tickets are logged and held back; a right one is not"
    )
    func registrations() async throws {
        let log = KeptLog()
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.refusalsPerMinutePerAddress = 3
            $0.logger = log.logger()
        }
        let project = "keyed"
        let key = try await test.broker.createProject(project).registrationKey
        func peer(_ credential: RegistrationCredential, from host: UInt8) throws -> Peer {
            let peer = try test.peer(from: host)
            try peer.send(
                .hello(
                    .newDevice(
                        projectID: project, appName: "a.b", platform: .web,
                        credential: credential)))
            return peer
        }
        for _ in 0..<2 {
            let refused = try peer(.key("AAAAAAAAAAAA.secret"), from: 2)
            #expect(try refused.error().word == .permissionDenied)
        }
        // A device that presents nothing counts too: it may be trying the IDs of projects.
        #expect(try peer(.none, from: 2).error().word == .permissionDenied)
        let waiting = try peer(.key("AAAAAAAAAAAA.secret"), from: 2)
        #expect(!waiting.hasMore(milliseconds: 300))
        _ = try peer(.key(key), from: 2).welcome()
        #expect(try waiting.error().word == .permissionDenied)
        #expect(log.has("a credential was refused", "kind=registration key", "from=127.0.0.2"))
        #expect(!log.has("secret"))

        try await test.broker.setPolicies(registration: .ticket, in: project)
        try await test.broker.addTicketSecret(
            [UInt8](repeating: 7, count: 32), id: "login", in: project)
        sleep(1)
        #expect(try peer(.ticket("a.b.c"), from: 3).error().word == .permissionDenied)
        #expect(log.has("a credential was refused", "kind=ticket", "from=127.0.0.3"))
        try await test.broker.close()
    }

    @Test(
        "NET-7 a peer on a proxies' listener that is no proxy is closed, and logged with its address"
    )
    func strangeProxy() async throws {
        let log = KeptLog()
        let test = try await TestBroker.open(loops: 1) {
            $0.listeners = [.init(.init(port: 0)), .init(.init(port: 0), isProxied: true)]
            $0.proxies = [AddressPrefix("127.0.0.1")!]
            $0.logger = log.logger()
        }
        for _ in 0..<20 {
            try Peer(port: test.broker.ports[1], from: 9).waitForEnd()
        }
        waitUntil { log.has("no proxy of --proxy", "from=127.0.0.9") }
        #expect(log.all.count < 20)
        try await test.broker.close()
    }
}
