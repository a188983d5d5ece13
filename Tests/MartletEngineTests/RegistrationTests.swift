// SPDX-License-Identifier: Apache-2.0
//
// Instances and credentials (REG). Rests on Bench.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Registration and credentials")
struct RegistrationTests {
    @Test(
        "REG-1: registering gives an instance of the app and platform asked for, and apps are made once"
    )
    func register() throws {
        let bench = Bench()
        try bench.project("tides")
        let first = bench.newInstance(in: "tides", app: "com.example.tides", platform: .android)
        let second = bench.newInstance(in: "tides", app: "com.example.tides", platform: .apple)
        let third = bench.newInstance(in: "tides", app: "com.example.tides", platform: .android)
        let outcomes = try bench.apply([.register(first), .register(second), .register(third)])
        let instances = try outcomes.map { outcome in
            guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
            return instance
        }
        try #require(instances.map(\.token) == [first, second, third].map(\.token))
        #expect(instances.map(\.platform) == [.android, .apple, .android])
        #expect(instances[0].app == instances[2].app && instances[0].app != instances[1].app)
        #expect(Set(instances.map(\.ordinal)).count == 3)
        try bench.expectClean()
    }

    @Test(
        "REG-2: a wrong key, an unknown token and another project's token are refused, each by its word"
    )
    func connect() throws {
        let bench = Bench()
        try bench.project("tides")
        try bench.project("other")
        let instance = try bench.register(1, in: "tides")[0]
        let wrong = SecretDigest(bytes: [UInt8](repeating: 9, count: 32))
        func word(_ project: String, _ token: String, _ digest: SecretDigest) throws -> ErrorWord? {
            do {
                _ = try bench.store.read { (transaction) throws in
                    try Authentication.device(
                        projectID: project, token: token, digest: digest, in: transaction)
                }
                return nil
            } catch let error as MartletError {
                return error.word
            }
        }
        let token = instance.token.text
        #expect(try word("tides", token, instance.keyDigest) == nil)
        #expect(try word("tides", token, wrong) == .unauthenticated)
        #expect(
            try word("tides", String(repeating: "A", count: 32), instance.keyDigest)
                == .unregistered)
        #expect(try word("other", token, instance.keyDigest) == .unregistered)
        #expect(try word("nowhere", token, instance.keyDigest) == .unregistered)
        #expect(try word("", token, instance.keyDigest) == .unregistered)
        #expect(
            try word(String(repeating: "p", count: 600), token, instance.keyDigest)
                == .unregistered)
        #expect(try word("tides", "short", instance.keyDigest) == .invalidArgument)
    }

    @Test("REG-1: the project with the highest number is refused, and the broker goes on")
    func projectNumbers() throws {
        let bench = Bench()
        try bench.store.write { (transaction) throws(StorageError) in
            var last = RecordWriter()
            last.append(UInt32.max - 1)
            try transaction.raw.put(.meta, Key(bytes: Array("projects".utf8)), last.bytes)
        }
        let create = { (id: String) in
            try bench.apply(.createProject(id: id, senderID: 1, conditionTopicsMax: 0))
        }
        guard case .project(let project) = try create("last") else {
            Issue.record("a number is left")
            return
        }
        #expect(project.number.rawValue == UInt32.max - 1)
        guard case .refused(let error) = try create("more") else {
            Issue.record("no number is left")
            return
        }
        #expect(error.word == .resourceExhausted)
        #expect(error.field == "project")
    }

    @Test("REG-3: unregistering drops the mailbox, leaves every topic and invalidates the token")
    func unregister() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        try bench.change(.subscribe, "mine", [instances[0]], in: project)
        _ = try bench.accepted(.token(instances[0].token.text), in: project)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal))
        #expect(
            refusal(try bench.send(.token(instances[0].token.text), in: project)) == .unregistered)
        #expect(try bench.members(of: "all", in: project) == instances[1...].map(\.token))
        #expect(try bench.members(of: "mine", in: project) == [])
        #expect(try bench.pending(instances[0]) == [])
        #expect(
            refusal(
                try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal)))
                == .unregistered)
        try bench.expectClean()
    }

    @Test(
        "REG-3: an ordinal that is used again inherits neither topics nor messages nor acknowledgements"
    )
    func reuse() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(100, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        let old = instances[7]
        _ = try bench.accepted(.topic("all"), in: project)
        _ = try bench.accepted(.token(old.token.text), in: project)
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: old.ordinal, through: .even(0), single: [2])
            ]))
        _ = try bench.apply(.unregister(project: project, ordinal: old.ordinal))
        let new = try bench.register(1, in: "tides")[0]
        #expect(new.ordinal == old.ordinal, "the ordinal was not used again")
        #expect(try bench.pending(new) == [])
        #expect(try !bench.members(of: "all", in: project).contains(new.token))
        _ = try bench.accepted(.topic("all"), in: project)
        #expect(try bench.pending(new) == [])
        _ = try bench.accepted(.token(new.token.text), in: project, body: [7])
        #expect(try bench.pending(new).map(\.body) == [[7]])
        // An acknowledgement of the old holder that comes late means nothing to the new one.
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: old.ordinal, through: .even(2))
            ]))
        #expect(try bench.pending(new).map(\.body) == [[7]])
        try bench.expectClean()
    }

    @Test("REG-5: of a server key only the digest is stored, and revoking ends it")
    func serverKeys() throws {
        let bench = Bench()
        try bench.project("tides")
        try bench.project("other")
        let digest = SecretDigest(bytes: (0..<32).map { 200 &- UInt8($0) })
        let key = NewKey(id: "key-1", name: "a name to be found in the file", digest: digest)
        _ = try bench.apply(.createKey(project: "tides", key: key))
        func word(_ project: String, _ id: String, _ digest: SecretDigest) throws -> ErrorWord? {
            do {
                _ = try bench.store.read { (transaction) throws in
                    try Authentication.sender(
                        projectID: project, keyID: id, digest: digest, in: transaction)
                }
                return nil
            } catch let error as MartletError {
                return error.word
            }
        }
        let wrong = SecretDigest(bytes: [UInt8](repeating: 9, count: 32))
        #expect(try word("tides", "key-1", digest) == nil)
        #expect(try word("tides", "key-1", wrong) == .unauthenticated)
        #expect(try word("tides", "key-2", digest) == .unauthenticated)
        #expect(try word("tides", "", digest) == .unauthenticated)
        #expect(try word("other", "key-1", digest) == .unauthenticated)
        #expect(
            refusal(try bench.apply(.revokeKey(project: "other", keyID: "key-1"))) == .notFound)
        #expect(try word("tides", "key-1", digest) == nil)
        _ = try bench.apply(.revokeKey(project: "tides", keyID: "key-1"))
        #expect(try word("tides", "key-1", digest) == .unauthenticated)
        try bench.expectClean()
    }

    @Test("REG-5: a service-account key is kept as it was told, and revoking ends it")
    func serviceAccounts() throws {
        let bench = Bench()
        try bench.project("tides")
        try bench.project("other")
        let key = NewServiceAccountKey(
            id: "a1", name: "büro", clientEmail: "a@tides", publicKey: PublicKeys.rsa)
        func create(
            _ project: String = "tides", _ change: (inout NewServiceAccountKey) -> Void = { _ in }
        ) throws -> ErrorWord? {
            var key = key
            change(&key)
            return refusal(try bench.apply(.createServiceAccount(project: project, key: key)))
        }
        func found(_ project: String?) throws -> ServiceAccountKey? {
            try bench.store.read { (transaction) throws in
                try? Authentication.serviceAccount(
                    projectID: project, keyID: "a1", in: transaction
                ).key
            }
        }
        #expect(try found("tides")?.id == nil)
        #expect(try create() == nil)
        #expect(try create() == .alreadyExists)
        #expect(try create("other") == .alreadyExists)
        #expect(try create("nowhere") == .notFound)
        #expect(try create { $0.id = "A" } == .invalidArgument)
        #expect(try create { $0.id = "" } == .invalidArgument)
        #expect(try create { $0.clientEmail = "" } == .invalidArgument)
        #expect(try create { $0.publicKey = [] } == .invalidArgument)
        let noKeys: [(what: String, bytes: [UInt8])] = [
            ("abc", Array("abc".utf8)), ("of 1024 bits", PublicKeys.rsaOf1024Bits),
            ("of an elliptic curve", PublicKeys.ellipticCurve),
            ("with a byte too many", PublicKeys.rsa + [0]),
            ("cut short", PublicKeys.rsa.dropLast()),
            ("as text", Array("-----BEGIN PUBLIC KEY-----".utf8)),
        ]
        for (what, bytes) in noKeys {
            let command = Command.createServiceAccount(
                project: "tides",
                key: NewServiceAccountKey(
                    id: "b1", name: "b", clientEmail: "b@tides", publicKey: bytes))
            guard case .refused(let error) = try bench.apply(command) else {
                Issue.record("a key \(what) is taken")
                continue
            }
            #expect(error.word == .invalidArgument && error.field == "public_key", "\(what)")
        }
        // Whatever the bytes are, the answer is a refusal.
        var random = SeededGenerator(seed: 3)
        for _ in 0..<2000 {
            var bytes = PublicKeys.rsa
            for _ in 0..<4 {
                bytes[random.number(0...40)] = UInt8(truncatingIfNeeded: random.next())
            }
            _ = try create { $0.publicKey = Array(bytes.prefix(random.number(1...bytes.count))) }
        }
        try bench.reopen()
        let kept = try #require(try found("tides"))
        #expect(kept.name == "büro" && kept.clientEmail == "a@tides")
        #expect(kept.publicKey == PublicKeys.rsa)
        #expect(try found(nil)?.id == "a1")
        #expect(try found("other")?.id == nil)
        #expect(
            refusal(try bench.apply(.revokeServiceAccount(project: "other", keyID: "a1")))
                == .notFound)
        _ = try bench.apply(.revokeServiceAccount(project: "tides", keyID: "a1"))
        #expect(try found("tides")?.id == nil)
        try bench.expectClean()
    }
}
