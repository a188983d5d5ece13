// SPDX-License-Identifier: Apache-2.0
//
// Addresses of instances at push services, and the keys of projects for these services (GW-11). Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Bridges")
struct BridgeTests {
    private static func apns(_ number: UInt8, sandbox: Bool = false) -> BridgeAddress {
        .apns(
            APNsAddress(
                token: [UInt8](repeating: number, count: 32), isSandbox: sandbox,
                bundle: "com.example.tides"))
    }

    private static func webPush(_ path: String, key: UInt8 = 1) -> BridgeAddress {
        .webPush(
            WebPushAddress(
                endpoint: "https://push.example/\(path)",
                publicKey: [4] + [UInt8](repeating: key, count: 64),
                authentication: [UInt8](repeating: 2, count: 16)))
    }

    private func imported(
        _ address: BridgeAddress, on platform: Platform = .apple, _ bench: Bench
    ) throws -> Outcome {
        var new = bench.newInstance(in: "tides", platform: platform)
        new.bridging = Bridging(address, isOnlyWay: true)
        return try bench.apply(.register(new))
    }

    private func instance(_ outcome: Outcome) throws -> Instance {
        guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
        return instance
    }

    private func set(
        _ address: BridgeAddress, of instance: Instance, _ bench: Bench
    ) throws -> Outcome {
        try bench.apply(
            .changeBridge(
                .setAddress(
                    project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                    address)))
    }

    private func address(of instance: Instance, _ bench: Bench) throws -> BridgeAddress? {
        try bench.store.read { (transaction) throws in
            try transaction.bridges.bridging(of: instance.ordinal, in: instance.project)?.address
        }
    }

    @Test("GW-11: an instance has the address it was given last, of either service")
    func set() throws {
        let bench = Bench()
        try bench.project("tides")
        let (apple, web) = try (
            instance(bench.apply(.register(bench.newInstance(in: "tides", platform: .apple)))),
            instance(bench.apply(.register(bench.newInstance(in: "tides", platform: .web))))
        )
        #expect(try address(of: apple, bench) == nil)
        for (address, owner) in [
            (Self.apns(1), apple), (Self.apns(1, sandbox: true), apple), (Self.webPush("a"), web),
            (Self.webPush("a", key: 7), web),
        ] {
            guard case .bridgeChanged(let news) = try set(address, of: owner, bench) else {
                Issue.record("\(address) was not set")
                continue
            }
            #expect(news == .instance(owner.project, owner.ordinal))
            #expect(try self.address(of: owner, bench) == address)
            try bench.expectClean()
        }
        // The same address again changes nothing.
        guard case .done = try set(Self.webPush("a", key: 7), of: web, bench) else {
            Issue.record("an address was changed to itself")
            return
        }
        #expect(try bench.rowCounts([.bridges, .bridgeDigests]) == [2, 2])
        _ = try bench.apply(
            .changeBridge(
                .removeAddress(project: web.project, ordinal: web.ordinal, holder: web.holder)))
        #expect(try address(of: web, bench) == nil)
        #expect(try bench.rowCounts([.bridges, .bridgeDigests]) == [1, 1])
        try bench.expectClean()
    }

    @Test("GW-11: an address moves to the instance that has it now, and leaves the former without")
    func moved() throws {
        let bench = Bench()
        try bench.project("tides")
        let former = try instance(imported(Self.apns(1), bench))
        let present = try instance(
            bench.apply(.register(bench.newInstance(in: "tides", platform: .apple))))
        guard case .bridgeChanged(let news) = try set(Self.apns(1), of: present, bench) else {
            Issue.record("the address was not set")
            return
        }
        #expect(
            news == .instances(present.project, present.ordinal, former: former.ordinal))
        #expect(try address(of: former, bench) == nil)
        #expect(try address(of: present, bench) == Self.apns(1))
        try bench.expectClean()
    }

    @Test("GW-11: an import of a known address is refused, so the importer finds the instance")
    func imported() throws {
        let bench = Bench()
        try bench.project("tides")
        let first = try instance(imported(Self.apns(1), bench))
        #expect(refusal(try imported(Self.apns(1), bench)) == .alreadyExists)
        _ = try instance(imported(Self.apns(1, sandbox: true), bench))
        let found = try bench.store.read { (transaction) throws in
            try transaction.bridges.ordinal(of: Self.apns(1), in: first.project)
        }
        #expect(found == first.ordinal)
        try bench.expectClean()
    }

    @Test(
        "GW-11: an address of another platform, and a malformed address, are refused",
        arguments: [
            (apns(1), Platform.android), (apns(1), .web), (webPush("a"), .apple),
            (.apns(APNsAddress(token: [], isSandbox: false, bundle: "a")), .apple),
            (
                .apns(
                    APNsAddress(
                        token: [UInt8](repeating: 1, count: Limits.apnsTokenBytesMax + 1),
                        isSandbox: false, bundle: "a")), .apple
            ),
            (.apns(APNsAddress(token: [1], isSandbox: false, bundle: "a b")), .apple),
            (.apns(APNsAddress(token: [1], isSandbox: false, bundle: "")), .apple),
            (
                .webPush(
                    WebPushAddress(endpoint: "https://a", publicKey: [4], authentication: [])),
                .web
            ),
        ] as [(BridgeAddress, Platform)])
    func refused(address: BridgeAddress, platform: Platform) throws {
        let bench = Bench()
        try bench.project("tides")
        #expect(refusal(try imported(address, on: platform, bench)) == .invalidArgument)
        let known = try instance(
            bench.apply(.register(bench.newInstance(in: "tides", platform: platform))))
        #expect(refusal(try set(address, of: known, bench)) == .invalidArgument)
        #expect(try bench.rowCounts([.bridges, .bridgeDigests]) == [0, 0])
    }

    @Test(
        "REG-3: with an address that is gone goes the instance whose only way it was, and no other")
    func ended() throws {
        let bench = Bench()
        try bench.project("tides")
        let only = try instance(imported(Self.apns(1), bench))
        let other = try instance(
            bench.apply(.register(bench.newInstance(in: "tides", platform: .apple))))
        _ = try set(Self.apns(2), of: other, bench)
        func end(_ instance: Instance, _ address: BridgeAddress) throws -> Outcome {
            try bench.apply(
                .changeBridge(
                    .end(
                        project: instance.project, ordinal: instance.ordinal,
                        holder: instance.holder, address)))
        }
        // A late answer about a former address ends nothing.
        _ = try set(Self.apns(3), of: other, bench)
        guard case .done = try end(other, Self.apns(2)) else {
            Issue.record("a former address was ended")
            return
        }
        #expect(try address(of: other, bench) == Self.apns(3))
        guard case .unregistered = try end(only, Self.apns(1)),
            case .bridgeChanged = try end(other, Self.apns(3))
        else {
            Issue.record("an end has another outcome")
            return
        }
        #expect(refusal(try end(only, Self.apns(1))) == .unregistered)
        #expect(
            try bench.send(.token(only.token.text), in: only.project).refusedWord == .unregistered)
        _ = try bench.accepted(.token(other.token.text), in: other.project)
        #expect(try bench.rowCounts([.bridges, .bridgeDigests]) == [0, 0])
        try bench.expectClean()
    }

    @Test("REG-3: an instance that unregisters takes its address along")
    func unregistered() throws {
        let bench = Bench()
        try bench.project("tides")
        let first = try instance(imported(Self.apns(1), bench))
        _ = try bench.apply(
            .unregisterToken(project: first.project, token: first.token.text))
        #expect(try bench.rowCounts([.bridges, .bridgeDigests]) == [0, 0])
        let next = try instance(
            bench.apply(.register(bench.newInstance(in: "tides", platform: .apple))))
        #expect(next.ordinal == first.ordinal)
        #expect(try address(of: next, bench) == nil)
        // A command that names the former holder changes nothing.
        #expect(refusal(try set(Self.apns(5), of: first, bench)) == .unregistered)
        try bench.expectClean()
    }

    @Test(
        "GW-11: a project has up to eight keys for a service, and a key with a known ID is replaced"
    )
    func keys() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        func put(_ id: String, _ sealed: UInt8 = 1, _ kind: BridgeKind = .apns) throws -> Outcome {
            try bench.apply(
                .changeBridge(
                    .putKey(
                        project: "tides",
                        BridgeKey(kind: kind, id: id, owner: "TEAM", sealed: [sealed]))))
        }
        for number in 0..<Limits.bridgeKeysPerServiceMax {
            guard case .bridgeChanged(.keys(project)) = try put("KEY\(number)") else {
                Issue.record("key \(number) was refused")
                return
            }
        }
        #expect(refusal(try put("MORE")) == .resourceExhausted)
        _ = try put("KEY3", 9)
        _ = try put("VAPID", 2, .webPush)
        let keys = try bench.store.read { (transaction) throws in
            try transaction.bridges.keys(of: project)
        }
        #expect(keys.count == Limits.bridgeKeysPerServiceMax + 1)
        #expect(keys.first { $0.id == "KEY3" }?.sealed == [9])
        #expect(keys.last?.kind == .webPush && keys.last?.owner == "TEAM")
        let removal = Command.changeBridge(.removeKey(project: "tides", kind: .apns, id: "KEY3"))
        guard case .bridgeChanged = try bench.apply(removal) else {
            Issue.record("a key was not removed")
            return
        }
        #expect(refusal(try bench.apply(removal)) == .notFound)
        #expect(
            refusal(
                try bench.apply(
                    .changeBridge(
                        .putKey(
                            project: "none",
                            BridgeKey(kind: .apns, id: "A", owner: "", sealed: [])))))
                == .notFound)
        try bench.expectClean()
    }

    @Test(
        "GW-11: a part of a key that has a wrong size is refused with a sentence about that part",
        arguments: [
            ("key_id", BridgeKey(kind: .apns, id: "", owner: "TEAM", sealed: [1])),
            (
                "key_id",
                BridgeKey(
                    kind: .apns, id: String(repeating: "K", count: 97), owner: "TEAM", sealed: [1])
            ),
            (
                "team_id",
                BridgeKey(
                    kind: .apns, id: "KEY", owner: String(repeating: "T", count: 257), sealed: [1])
            ),
            (
                "private_key",
                BridgeKey(
                    kind: .apns, id: "KEY", owner: "TEAM",
                    sealed: [UInt8](repeating: 1, count: 1025))
            ),
        ])
    func sizes(field: String, key: BridgeKey) throws {
        let bench = Bench()
        try bench.project("tides")
        guard
            case .refused(let error) = try bench.apply(
                .changeBridge(.putKey(project: "tides", key)))
        else {
            Issue.record("the key was not refused")
            return
        }
        #expect(error.word == .invalidArgument && error.field == field)
    }

    @Test(
        "GW-11: a part of a Web Push address that has a wrong size is refused with its name",
        arguments: [
            ("endpoint", 0, 65, 16), ("endpoint", 2049, 65, 16), ("p256dh", 20, 64, 16),
            ("auth", 20, 65, 15),
        ])
    func addressSizes(field: String, endpoint: Int, publicKey: Int, secret: Int) {
        let address = WebPushAddress(
            endpoint: String(repeating: "e", count: endpoint),
            publicKey: [UInt8](repeating: 4, count: publicKey),
            authentication: [UInt8](repeating: 1, count: secret))
        #expect(BridgeAddress.webPush(address).fault(on: .web)?.field == field)
    }

    @Test(
        "REP-1: a message handed over, a refused one and an acknowledged one have one outcome each")
    func outcomes() throws {
        let bench = Bench()
        try bench.project("tides")
        let instances = try (1...3).map { try instance(imported(Self.apns($0), bench)) }
        let project = instances[0].project
        for instance in instances {
            _ = try bench.apply(
                .changeTopic(
                    project: project, topic: "news", change: .subscribe,
                    tokens: [instance.token.text]))
        }
        let number = try bench.accepted(.topic("news"), in: project).0.messageNumber
        let sequence = MessageSequence(number)
        func acknowledge(_ instance: Instance, handedOver: Bool) throws {
            var one = Acknowledgement(
                project: project, ordinal: instance.ordinal, holder: instance.holder,
                through: LaneMarks(sequence))
            one.isHandedOver = handedOver
            _ = try bench.apply(.acknowledge([one]))
        }
        func refuse(_ instance: Instance) throws {
            _ = try bench.apply(
                .changeBridge(
                    .refuse(
                        BridgeRefusal(
                            project: project, ordinal: instance.ordinal, holder: instance.holder,
                            sequence: sequence, kind: .apns, reason: "PayloadTooLarge"))))
        }
        try acknowledge(instances[0], handedOver: true)
        try acknowledge(instances[1], handedOver: false)
        try refuse(instances[2])
        // A repeated refusal, and the acknowledgement behind it, count nothing.
        try refuse(instances[2])
        #expect(try bench.pending(instances[2]).isEmpty)
        try acknowledge(instances[2], handedOver: true)
        // A refusal after an acknowledgement counts nothing either.
        try refuse(instances[0])
        let report = try #require(
            try bench.store.read { (transaction) throws in
                try Reports.message(
                    number, in: project, limits: bench.limits, now: bench.now, transaction)
            })
        #expect(report.counts[.targeted] == 3)
        #expect(report.counts[.handedOver] == 1)
        #expect(report.counts[.acknowledged] == 1)
        #expect(report.counts[.refused] == 1)
        #expect(report.counts.pending == 0)
        #expect(
            report.refusals
                == [RefusalCount(kind: .apns, reason: "PayloadTooLarge", count: 1)])
        // REP-2: only the instance whose message was refused has not got it.
        let missing = try #require(
            try bench.store.read { (transaction) throws in
                try Reports.notReceived(
                    number, in: project, from: Ordinal(0), limit: 10, transaction)
            })
        #expect(missing.tokens == [instances[2].token])
        try bench.expectClean()
    }
}

extension Outcome {
    fileprivate var refusedWord: ErrorWord? {
        if case .refused(let error) = self { error.word } else { nil }
    }
}
