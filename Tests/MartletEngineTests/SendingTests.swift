// SPDX-License-Identifier: Apache-2.0
//
// What a send accepts, refuses and reaches (MSG, CON, TTL). Rests on Bench.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Sending")
struct SendingTests {
    @Test("MSG-7: validate_only checks everything and sends nothing")
    func validateOnly() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let targets: [(SendCommand.Target, ErrorWord?)] = [
            (.token(instance.token.text), nil), (.condition("!('x' in topics)"), nil),
            (.topic("no one"), .invalidArgument), (.token("?"), .invalidArgument),
            (.condition("'x' in"), .invalidArgument),
            (.token(String(repeating: "A", count: 32)), .unregistered),
        ]
        for (target, word) in targets {
            let outcome = try bench.send(target, in: project, validateOnly: true)
            #expect(refusal(outcome) == word)
            guard word == nil else { continue }
            guard case .accepted(let acceptance, let fanouts) = outcome, fanouts.isEmpty else {
                throw Unexpected(outcome)
            }
            #expect(acceptance == Acceptance(messageNumber: 0, recipientCount: 1))
        }
        #expect(try bench.pending(instance) == [])
        // No number was used up.
        #expect(try bench.accepted(.topic("x"), in: project).0.messageNumber == 1)
    }

    @Test("MSG-6: an accepted message is there after reopening, byte for byte, and numbers go on")
    func durable() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let body = (0..<4000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        _ = try bench.accepted(.token(instance.token.text), in: project, body: body)
        try bench.reopen()
        #expect(try bench.pending(instance) == [Waiting(sequence: 1, from: "4711", body: body)])
        let (next, _) = try bench.accepted(.token(instance.token.text), in: project)
        #expect(next.messageNumber == 2)
    }

    @Test(
        "CON-3: a sixth topic is refused where the project did not raise the limit, whatever was compiled before"
    )
    func topicsMax() throws {
        let bench = Bench()
        let wide = try bench.project("wide", topicsMax: 64)
        let narrow = try bench.project("narrow")
        let six = (0..<6).map { "'t\($0)' in topics" }.joined(separator: " || ")
        #expect(try bench.accepted(.condition(six), in: wide).0.recipientCount == 0)
        #expect(refusal(try bench.send(.condition(six), in: narrow)) == .invalidArgument)
        let five = (0..<5).map { "'t\($0)' in topics" }.joined(separator: " || ")
        _ = try bench.accepted(.condition(five + " || 't0' in topics"), in: narrow)
        for topicsMax in [-1, 65] {
            let outcome = try bench.apply(
                .createProject(id: "x", senderID: 0, conditionTopicsMax: topicsMax))
            #expect(refusal(outcome) == .invalidArgument)
        }
    }

    @Test(
        "CON-4: a negation selects those without any subscription too, and no more than are registered"
    )
    func negation() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(5, in: "tides")
        try bench.change(.subscribe, "dogs", instances[..<2], in: project)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[4].ordinal))
        let (acceptance, _) = try bench.accepted(.condition("!('dogs' in topics)"), in: project)
        #expect(acceptance.recipientCount == 2)
        let (everyone, _) = try bench.accepted(.condition("!('nothing' in topics)"), in: project)
        #expect(everyone.recipientCount == 4)
    }

    @Test("CON-5: who joins or leaves after acceptance changes nothing for that message")
    func instant() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "dogs", instances[..<2], in: project)
        _ = try bench.accepted(.topic("dogs"), in: project)
        try bench.change(.unsubscribe, "dogs", [instances[0]], in: project)
        try bench.change(.subscribe, "dogs", [instances[2]], in: project)
        #expect(try instances.map { try bench.pending($0).count } == [1, 1, 0])
    }

    @Test("CON-11: commands of one transaction see those before them")
    func readYourWrites() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let change = Command.changeTopics(
            project: project, ordinal: instance.ordinal, change: .subscribe, topics: ["dogs"])
        let send = Command.send(
            project: project, message: SendCommand(target: .topic("dogs"), body: []))
        let back = Command.changeTopics(
            project: project, ordinal: instance.ordinal, change: .unsubscribe, topics: ["dogs"])
        let counts = try bench.apply([send, change, send, back, send]).compactMap { outcome in
            if case .accepted(let acceptance, _) = outcome {
                acceptance.recipientCount
            } else {
                nil
            }
        }
        #expect(counts == [0, 1, 0] as [UInt64])
    }

    @Test(
        "TTL-3: a message lives 28 days unless told otherwise, and is never delivered afterwards",
        arguments: [nil, 1, 60, 2_419_200] as [UInt32?])
    func lifespan(seconds: UInt32?) throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        _ = try bench.accepted(.token(instance.token.text), in: project, timeToLive: seconds)
        let start = bench.now
        bench.now = Instant(
            millisecondsSince1970: start.advanced(bySeconds: Int64(seconds ?? 2_419_200))
                .millisecondsSince1970 - 1)
        #expect(try bench.pending(instance).count == 1)
        bench.now = Instant(millisecondsSince1970: bench.now.millisecondsSince1970 + 1)
        #expect(try bench.pending(instance).isEmpty)
    }

    @Test("TTL-1: more than 28 days are refused; TTL-2: none is stored")
    func lifespanBounds() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let target = SendCommand.Target.token(instance.token.text)
        #expect(
            refusal(try bench.send(target, in: project, timeToLive: 2_419_201)) == .invalidArgument)
        let (now, fanout) = try bench.accepted(target, in: project, timeToLive: 0)
        #expect(now.recipientCount == 1)
        #expect(fanout?.header.sequence.isStored == false)
        #expect(try bench.pending(instance).isEmpty)
        #expect(try bench.store.check().counts.messages == 0)
    }

    @Test(
        "TTL-4: what is not acknowledged is pending again, in order, and what is acknowledged singly is not"
    )
    func acknowledging() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(80, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        // By turns rows of the inbox and blobs.
        for index in 0..<6 as Range<UInt8> {
            let target: SendCommand.Target =
                index % 2 == 0 ? .token(instances[0].token.text) : .topic("all")
            _ = try bench.accepted(target, in: project, body: [index])
        }
        func bodies() throws -> [UInt8] { try bench.pending(instances[0]).flatMap(\.body) }
        func acknowledge(_ through: UInt64, _ single: [UInt64] = []) throws {
            _ = try bench.apply(
                .acknowledge([
                    Acknowledgement(
                        project: project, ordinal: instances[0].ordinal,
                        through: .even(through), single: single)
                ]))
        }
        #expect(try bodies() == [0, 1, 2, 3, 4, 5])
        try acknowledge(0, [4, 2])
        #expect(try bodies() == [0, 2, 4, 5])
        try acknowledge(1)
        #expect(try bodies() == [2, 4, 5])
        try acknowledge(4)
        #expect(try bodies() == [4, 5])
        try acknowledge(2)
        #expect(try bodies() == [4, 5])
        try bench.expectClean()
        try bench.reopen()
        #expect(try bodies() == [4, 5])
        #expect(try bench.pending(instances[1]).flatMap(\.body) == [1, 3, 5])
    }
}
