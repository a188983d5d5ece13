// SPDX-License-Identifier: Apache-2.0
//
// Variants per platform (MSG-5, TTL-1, TTL-2), restriction to an app (MSG-8) and instances that have
// been away for too long (STO-2). Rests on SendBench.

import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Variants of a message and who gets them")
struct VariantTests {
    private func variant(
        _ platforms: PlatformSet, _ body: [UInt8], lifespan: Lifespan = .longest,
        restrictedTo name: String? = nil
    ) -> OutgoingVariant {
        OutgoingVariant(
            platforms: platforms, lifespan: lifespan, restrictedPackageName: name, body: body)
    }

    @Test(
        "MSG-5: each platform gets its variant, a platform without one gets nothing, and the message is stored once"
    )
    func variants() throws {
        let bench = try SendBench()
        let platforms: [Platform] = [.android, .apple, .web, .android, .apple, .web]
        let all = try platforms.map { try bench.register(on: $0) }
        try bench.subscribe(all, to: "t")
        for target: SendCommand.Target in [.topic("t"), .condition("!('x' in topics)")] {
            let (acceptance, fanouts) = try bench.accepted(
                SendCommand(
                    target: target,
                    variants: [variant([.init(.android)], [1]), variant([.init(.apple)], [2])]))
            #expect(acceptance.recipientCount == 4)
            #expect(fanouts.map(\.body) == [[1], [2]])
            #expect(fanouts.map(\.recipients.ordinals) == [[0, 3], [1, 4]])
            #expect(Set(fanouts.map(\.header.sequence)).count == 1)
            #expect(fanouts.allSatisfy { $0.header.number == acceptance.messageNumber })
        }
        #expect(
            try all.map { try bench.mailbox($0).bodies } == [
                [[1], [1]], [[2], [2]], [], [[1], [1]], [[2], [2]], [],
            ])
        // One to one.
        let message = SendCommand(
            target: .token(all[1].token.text),
            variants: [
                variant([.init(.android), .init(.web)], [1]), variant([.init(.apple)], [2]),
            ])
        let (one, fanouts) = try bench.accepted(message)
        #expect(one.recipientCount == 1)
        #expect(fanouts.map(\.body) == [[2]])
        var toNobody = message
        toNobody.target = .token(all[0].token.text)
        toNobody.variants.removeFirst()
        let (nobody, none) = try bench.accepted(toNobody)
        #expect(nobody.recipientCount == 0)
        #expect(nobody.messageNumber > one.messageNumber)
        #expect(none.isEmpty)
        try bench.expectClean()
    }

    @Test(
        "TTL-2: of a message's variants those that are now or never are not stored, and have the message's number"
    )
    func mixedLives() throws {
        let bench = try SendBench()
        let android = try bench.register()
        let apple = try bench.register(on: .apple)
        let web = try bench.register(on: .web)
        let (acceptance, fanouts) = try bench.accepted(
            SendCommand(
                target: .condition("!('x' in topics)"),
                variants: [
                    variant([.init(.android)], [1], lifespan: .seconds(0)),
                    variant([.init(.apple)], [2], lifespan: .seconds(60)),
                    variant([.init(.web)], [3], lifespan: .until(bench.now)),
                ]))
        #expect(acceptance.recipientCount == 3)
        try #require(fanouts.map(\.header.sequence.isStored) == [false, true, false])
        #expect(fanouts.allSatisfy { $0.header.number == acceptance.messageNumber })
        #expect(fanouts.map(\.recipients.ordinals) == [[0], [1], [2]])
        #expect(fanouts[1].header.sequence.rawValue == acceptance.messageNumber)
        #expect(fanouts.allSatisfy { $0.position == fanouts[1].header.sequence })
        #expect(try bench.mailbox(android).bodies == [])
        #expect(try bench.mailbox(apple).bodies == [[2]])
        #expect(try bench.mailbox(web).bodies == [])
        bench.wait(seconds: 60)
        #expect(try bench.mailbox(apple).bodies == [])
        try bench.expectClean()
    }

    @Test("TTL-1: an instant may be up to 30 days ahead, and means 28 days then; more is refused")
    func instants() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        func message(_ lifespan: Lifespan) -> SendCommand {
            SendCommand(target: .token(instance.token.text), body: [1], lifespan: lifespan)
        }
        let day: Int64 = 86_400
        let start = bench.now
        for (days, kept) in [(1, 1), (28, 28), (30, 28)] as [(Int64, Int64)] {
            let end = start.advanced(bySeconds: days * day)
            let (_, fanouts) = try bench.accepted(message(.until(end)))
            #expect(fanouts[0].header.expires == start.advanced(bySeconds: kept * day))
        }
        let tooFar = Instant(rawValue: start.advanced(bySeconds: 30 * day).rawValue + 1)
        for lifespan in [Lifespan.until(tooFar), .seconds(2_419_201)] {
            let error = try bench.refused(message(lifespan))
            #expect(error.word == .invalidArgument)
            #expect(error.field == "time_to_live")
        }
        let (_, past) = try bench.accepted(message(.until(start.advanced(bySeconds: -1))))
        #expect(past[0].header.sequence.isStored == false)
    }

    @Test(
        "MSG-8: a restricted message reaches only instances of that app, on the variant's platforms"
    )
    func restricted() throws {
        let bench = try SendBench()
        let instances = [
            try bench.register(app: "a", on: .android), try bench.register(app: "a", on: .apple),
            try bench.register(app: "b", on: .android), try bench.register(app: "b", on: .web),
        ]
        try bench.subscribe(instances, to: "t")
        func reached(_ variants: [OutgoingVariant]) throws -> [[UInt32]] {
            let (acceptance, fanouts) = try bench.accepted(
                SendCommand(target: .topic("t"), variants: variants))
            let reached = fanouts.map(\.recipients.ordinals)
            #expect(Int(acceptance.recipientCount) == reached.joined().count)
            return reached
        }
        for _ in 0..<2 {
            #expect(try reached([variant(.all, [1], restrictedTo: "a")]) == [[0, 1]])
            #expect(try reached([variant(.all, [1], restrictedTo: "nothing")]) == [])
            #expect(
                try reached([
                    variant([.init(.android)], [1], restrictedTo: "b"),
                    variant([.init(.apple), .init(.web)], [2]),
                ]) == [[2], [1, 3]])
        }
        func direct(_ instance: Instance) -> SendCommand {
            SendCommand(
                target: .token(instance.token.text),
                variants: [variant(.all, [1], restrictedTo: "a")])
        }
        #expect(try bench.accepted(direct(instances[1])).acceptance.recipientCount == 1)
        let error = try bench.refused(direct(instances[2]))
        #expect(error.word == .invalidArgument)
        #expect(error.field == "restricted_package_name")
        try bench.expectClean()
    }

    @Test(
        "CON-5: a burst to one topic is for the very same recipients, also by platform, until somebody joins"
    )
    func burst() throws {
        let bench = try SendBench()
        let instances = [
            try bench.register(), try bench.register(on: .apple), try bench.register(on: .apple),
        ]
        try bench.subscribe(Array(instances.prefix(2)), to: "t")
        let plain = SendCommand(target: .topic("t"), body: [1])
        let split = SendCommand(
            target: .topic("t"),
            variants: [variant([.init(.android)], [1]), variant([.init(.apple)], [2])])
        func identities(_ message: SendCommand) throws -> [ObjectIdentifier] {
            try bench.accepted(message).fanouts.compactMap {
                if case .many(let set) = $0.recipients { ObjectIdentifier(set) } else { nil }
            }
        }
        let first = (try identities(plain), try identities(split))
        #expect(try (identities(plain), identities(split)) == first)
        _ = try bench.apply(
            .connected(
                project: bench.tides, ordinal: instances[0].ordinal, holder: instances[0].holder,
                connection: ConnectionStart(number: 1, position: .none)))
        _ = try bench.advance()
        #expect(try identities(split) == first.1)
        try bench.subscribe([instances[2]], to: "t")
        #expect(try bench.accepted(split).fanouts.map(\.recipients.ordinals) == [[0], [1, 2]])
    }

    @Test("STO-2: a burst to one topic knows at once who becomes inactive, and who is not any more")
    func inactiveInBurst() throws {
        let bench = try SendBench()
        let instances = [try bench.register(), try bench.register()]
        try bench.subscribe(instances, to: "t")
        func inactiveCount() throws -> UInt64 {
            try bench.accepted(SendCommand(target: .topic("t"), body: [1])).acceptance
                .inactiveCount
        }
        #expect(try inactiveCount() == 0)
        bench.wait(seconds: 2_592_000)
        _ = try bench.advance()
        #expect(try inactiveCount() == 0)
        bench.wait(seconds: 0.001)
        _ = try bench.advance()
        #expect(try inactiveCount() == 2)
        #expect(try inactiveCount() == 2)
        try bench.visit(instances[0])
        #expect(try inactiveCount() == 1)
        #expect(try inactiveCount() == 1)
        try bench.visit(instances[1])
        #expect(try inactiveCount() == 0)
        #expect(try bench.mailbox(instances[1]).bodies.count == 1)
        try bench.expectClean()
    }

    @Test(
        "STO-2: for who has not connected for 30 days a message is accepted and discarded; who connects within 28 days is told how many"
    )
    func inactive() throws {
        let bench = try SendBench()
        let (here, away) = (try bench.register(), try bench.register())
        let apple = try bench.register(on: .apple)
        try bench.subscribe([here, away, apple], to: "t")
        let plain = SendCommand(target: .topic("t"), body: [1])
        bench.wait(seconds: 86_400 * 20)
        _ = try bench.advance()
        try bench.visit(here)
        try bench.visit(apple)
        #expect(try bench.accepted(plain).acceptance.inactiveCount == 0)
        bench.wait(seconds: 86_400 * 10 + 1)
        _ = try bench.advance()
        let (many, fanouts) = try bench.accepted(plain)
        #expect(many.recipientCount == 3)
        #expect(many.inactiveCount == 1)
        #expect(
            fanouts.map(\.recipients.ordinals) == [[here.ordinal.rawValue, apple.ordinal.rawValue]])
        let direct = SendCommand(target: .token(away.token.text), body: [2])
        let (one, none) = try bench.accepted(direct)
        #expect(one.recipientCount == 1)
        #expect(one.inactiveCount == 1)
        #expect(none.isEmpty)
        // A variant that is now or never is no matter of storage.
        let (split, _) = try bench.accepted(
            SendCommand(
                target: .topic("t"),
                variants: [
                    variant([.init(.android)], [3], lifespan: .seconds(0)),
                    variant([.init(.apple)], [4]),
                ]))
        #expect(split.inactiveCount == 0)
        #expect(try bench.mailbox(away).discardedCount == 2)
        #expect(try bench.mailbox(here).bodies == [[1], [1]])
        // Who is back gets what is sent from then on.
        try bench.visit(away)
        #expect(try bench.accepted(plain).acceptance.inactiveCount == 0)
        #expect(try bench.mailbox(away).bodies == [[1]])
        try bench.expectClean()
    }
}
