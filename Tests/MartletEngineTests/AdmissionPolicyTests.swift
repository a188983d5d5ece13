// SPDX-License-Identifier: Apache-2.0
//
// Who may register (REG-7): each policy with each proof, and what a refusal leaves. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

extension Bench {
    /// A digest of its own for each number.
    static func digest(_ number: UInt8) -> SecretDigest {
        SecretDigest(bytes: [UInt8](repeating: number, count: 32))
    }

    @discardableResult
    func change(_ change: RegistryChange, in project: String = "tides") throws -> Outcome {
        try apply(.changeRegistry(project: project, change))
    }

    func setPolicy(_ registration: RegistrationPolicy, in project: String = "tides") throws {
        guard
            case .done = try change(
                .policies(registration: registration, topics: nil), in: project)
        else { throw Unexpected(.done) }
    }

    func addKey(_ number: UInt8, in project: String = "tides") throws {
        let key = NewKey(id: "key\(number)", name: "", digest: Self.digest(number))
        try change(.createRegistrationKey(key), in: project)
    }

    func addTicketKey(_ id: String = "k1", in project: String = "tides") throws {
        try change(
            .createTicketKey(
                NewTicketKey(
                    id: id, name: "", algorithm: .hs256,
                    material: [UInt8](repeating: 7, count: 32))), in: project)
    }

    func ticket(
        _ number: UInt8, seconds: Int64 = 60, key: String = "k1", topics: [String] = []
    ) -> RegistrationProof {
        .ticket(
            VerifiedTicket(
                keyID: key, digest: Self.digest(number), expires: now.advanced(bySeconds: seconds),
                topics: topics))
    }

    /// Registers a device with a proof.
    func register(
        _ proof: RegistrationProof, app: String = "com.example.tides", in project: String = "tides"
    ) throws -> Outcome {
        var new = newInstance(in: project, app: app)
        new.proof = proof
        return try apply(.register(new))
    }

    /// All rows but those of `meta`, to compare a store before and after.
    func allRowCounts() throws -> [Int] { try rowCounts(Table.allCases) }
}

@Suite("Who may register")
struct AdmissionPolicyTests {
    private let bench = Bench()

    init() throws {
        try bench.project("tides")
        try bench.addKey(1)
        try bench.addTicketKey()
    }

    private func isAdmitted(_ proof: RegistrationProof, app: String = "com.example.tides") throws
        -> Bool
    {
        switch try bench.register(proof, app: app) {
        case .registered: return true
        case .refused(let error) where error.word == .permissionDenied: return false
        case let outcome: throw Unexpected(outcome)
        }
    }

    @Test("REG-7: a new project wants a registration key of its own, unrevoked")
    func key() throws {
        try bench.project("other")
        try bench.addKey(2, in: "other")
        #expect(try isAdmitted(.key(id: "key1", digest: Bench.digest(1))))
        #expect(try !isAdmitted(.none))
        #expect(try !isAdmitted(.key(id: "key1", digest: Bench.digest(2))))
        #expect(try !isAdmitted(.key(id: "key2", digest: Bench.digest(2))))
        #expect(try !isAdmitted(.key(id: "", digest: Bench.digest(1))))
        #expect(
            try !isAdmitted(.key(id: String(repeating: "k", count: 600), digest: Bench.digest(1))))
        #expect(try !isAdmitted(bench.ticket(1)))
        try bench.change(.revokeRegistrationKey(id: "key1"))
        #expect(try !isAdmitted(.key(id: "key1", digest: Bench.digest(1))))
        #expect(try isAdmitted(.trusted))
        try bench.expectClean()
    }

    @Test("REG-7: a ticket is good once, until it expires, and while its key is not revoked")
    func ticket() throws {
        try bench.setPolicy(.ticket)
        #expect(try isAdmitted(bench.ticket(1)))
        #expect(try !isAdmitted(bench.ticket(1)))
        #expect(try isAdmitted(bench.ticket(2)))
        #expect(try !isAdmitted(bench.ticket(3, seconds: 0)))
        #expect(try !isAdmitted(bench.ticket(3, key: "k2")))
        #expect(try !isAdmitted(.none))
        #expect(try !isAdmitted(.key(id: "key1", digest: Bench.digest(1))))
        try bench.change(.revokeTicketKey(id: "k1"))
        #expect(try !isAdmitted(bench.ticket(3)))
        try bench.expectClean()
    }

    @Test("REG-7: a used ticket is forgotten when it has expired, and is refused by its time then")
    func forgetting() throws {
        try bench.setPolicy(.ticket)
        let ticket = bench.ticket(1)
        #expect(try isAdmitted(ticket))
        #expect(try bench.rowCounts([.spentTickets]) == [1])
        bench.now = bench.now.advanced(bySeconds: 59)
        try bench.sweep()
        #expect(try bench.rowCounts([.spentTickets]) == [1])
        bench.now = bench.now.advanced(bySeconds: 1)
        try bench.sweep()
        #expect(try bench.rowCounts([.spentTickets]) == [0])
        #expect(try !isAdmitted(ticket))
        try bench.expectClean()
    }

    @Test("REG-7: a used ticket stays used when the broker begins anew")
    func usedAfterRestart() throws {
        try bench.setPolicy(.ticket)
        #expect(try isAdmitted(bench.ticket(1)))
        try bench.reopen()
        #expect(try !isAdmitted(bench.ticket(1)))
    }

    @Test("REG-8: an open project takes anybody, but only for apps that an administrator made")
    func open() throws {
        try bench.setPolicy(.open)
        #expect(try !isAdmitted(.none))
        try bench.change(.createApp(name: "com.example.tides", platform: .android))
        #expect(try isAdmitted(.none))
        #expect(try !isAdmitted(.none, app: "com.example.other"))
        try bench.expectClean()
    }

    @Test("REG-7: nothing is written for a refused registration, whatever refuses it")
    func nothingIsWritten() throws {
        try bench.setPolicy(.ticket)
        #expect(try isAdmitted(bench.ticket(1)))
        let before = try bench.allRowCounts()
        _ = try bench.register(.none, app: "com.example.new")
        _ = try bench.register(bench.ticket(1), app: "com.example.new")
        _ = try bench.register(bench.ticket(9), app: "bad name")
        _ = try bench.register(bench.ticket(9), app: "")
        try bench.setPolicy(.open)
        _ = try bench.register(.none, app: "com.example.new")
        #expect(try bench.allRowCounts() == before)
        try bench.expectClean()
    }

    @Test("REG-7: a revoked key and a revoked ticket key keep their names and no secret")
    func revoked() throws {
        try bench.change(.revokeTicketKey(id: "k1"))
        let project = try #require(
            try bench.store.read { (transaction) throws in
                try transaction.projects.project(id: "tides")
            })
        let keys = try bench.store.read { (transaction) throws in
            try transaction.registrations.ticketKeys(of: project.number)
        }
        try #require(keys.map(\.id) == ["k1"])
        #expect(keys[0].isRevoked && keys[0].material.isEmpty)
        #expect(refusal(try bench.change(.revokeTicketKey(id: "k2"))) == .notFound)
        #expect(refusal(try bench.change(.revokeRegistrationKey(id: "k2"))) == .notFound)
    }

    @Test("REG-7: keys are bounded, and ticket keys have an ID and a secret of their form")
    func bounds() throws {
        for number in 1..<Limits.registrationKeysPerProjectMax {
            let key = NewKey(id: "n\(number)", name: "", digest: Bench.digest(3))
            try bench.change(.createRegistrationKey(key))
        }
        let key = NewKey(id: "late", name: "", digest: Bench.digest(3))
        #expect(refusal(try bench.change(.createRegistrationKey(key))) == .resourceExhausted)
        func ticketKey(_ id: String, _ count: Int) throws -> ErrorWord? {
            refusal(
                try bench.change(
                    .createTicketKey(
                        NewTicketKey(
                            id: id, name: "", algorithm: .hs256,
                            material: [UInt8](repeating: 1, count: count)))))
        }
        #expect(try ticketKey("", 32) == .invalidArgument)
        #expect(try ticketKey("a b", 32) == .invalidArgument)
        #expect(try ticketKey(String(repeating: "k", count: 65), 32) == .invalidArgument)
        #expect(try ticketKey("k2", 31) == .invalidArgument)
        #expect(try ticketKey("k1", 32) == .alreadyExists)
        for number in 2...Limits.ticketKeysPerProjectMax {
            #expect(try ticketKey("k\(number)", 32) == nil)
        }
        #expect(try ticketKey("late", 32) == .resourceExhausted)
        try bench.expectClean()
    }

    @Test(
        "REG-8: registrations of a project in a second are bounded, and another project's are not")
    func rate() throws {
        var limits = BrokerLimits.none
        limits.registrationsPerSecond = 5
        let bench = Bench(limits: limits)
        for project in ["tides", "other"] {
            try bench.project(project)
            try bench.setPolicy(.open, in: project)
            try bench.change(
                .createApp(name: "com.example.tides", platform: .android), in: project)
        }
        for _ in 0..<5 { #expect(refusal(try bench.register(.none)) == nil) }
        guard case .refused(let error) = try bench.register(.none) else {
            Issue.record("the sixth is registered")
            return
        }
        #expect(error.word == .resourceExhausted)
        #expect(error.retryDelayMilliseconds == 200)
        #expect(refusal(try bench.register(.none, in: "other")) == nil)
        // A stranger without the project's credential takes nothing from the bucket.
        bench.now = bench.now.advanced(bySeconds: 1)
        try bench.setPolicy(.key)
        for _ in 0..<100 { #expect(refusal(try bench.register(.none)) == .permissionDenied) }
        try bench.addKey(1)
        #expect(refusal(try bench.register(.key(id: "key1", digest: Bench.digest(1)))) == nil)
    }

    @Test("REG-8: a project has a bounded number of instances, and a place that was left is free")
    func instances() throws {
        var limits = BrokerLimits.none
        limits.instancesPerProjectMax = 3
        let bench = Bench(limits: limits)
        let project = try bench.project("tides")
        let all = try bench.register(3, in: "tides")
        let before = try bench.allRowCounts()
        #expect(refusal(try bench.register(.trusted)) == .resourceExhausted)
        #expect(refusal(try bench.register(.trusted, app: "com.new")) == .resourceExhausted)
        #expect(try bench.allRowCounts() == before)
        _ = try bench.apply(.unregister(project: project, ordinal: all[1].ordinal))
        #expect(refusal(try bench.register(.trusted)) == nil)
        try bench.expectClean()
    }
}
