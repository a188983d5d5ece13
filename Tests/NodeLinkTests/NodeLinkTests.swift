// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: links between nodes: random histories in a world that knows everything, the same histories with a fault that
// must be noticed, and dialogues, frame by frame.

import MartletBase
import MartletCluster
import MartletRows
import MartletWire
import Testing

/// Compares results of mutating calls, which the macro cannot take apart.
private func same<Value: Equatable>(
    _ found: Value, _ expected: Value, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(found == expected, sourceLocation: sourceLocation)
}

@Suite("Links of nodes: histories")
struct LinkHistoryTests {
    @Test(
        "OPS-7 commands are applied once and answered once, and stores follow the log",
        arguments: 1...8)
    func histories(block: UInt64) {
        var counts: [String: Int] = [:]
        for seed in (block * 1000)..<(block * 1000 + 40) {
            let world = LinkWorld(seed: seed)
            world.run(steps: 4000)
            #expect(world.findings.isEmpty, "seed \(seed): \(world.findings)")
            counts.merge(world.counts, uniquingKeysWith: +)
        }
        for event in [
            "takeover", "step down", "refused row", "left out", "log read", "outcome again",
            "outcome held or known", "frame of a link that was left", "question", "full book",
            "answer without a row", "answer by a row",
        ] {
            #expect(counts[event] ?? 0 > 5, "\(event): \(counts)")
        }
    }

    @Test("OPS-7 the histories notice each fault", arguments: Breakage.allCases)
    func breakages(breakage: Breakage) {
        let isNoticed = (1...200).contains { seed in
            let world = LinkWorld(seed: UInt64(seed), breakage: breakage)
            world.run(steps: 4000)
            return world.findings.contains { $0.contains(breakage.finding) }
        }
        #expect(isNoticed)
    }
}

@Suite("Links of nodes: dialogues")
struct LinkDialogueTests {
    private static let beginning = LogPosition(beginningOf: Array(1...16))

    /// A log of rows with short bodies.
    private static func log(_ count: Int, epoch: UInt32 = 1) -> [ReplicatedRow] {
        var rows: [ReplicatedRow] = []
        for index in 0..<count {
            rows.append(
                ReplicatedRow(
                    after: rows.last?.position ?? beginning, epoch: epoch,
                    body: Array("row \(index + 1)".utf8)))
        }
        return rows
    }

    private static func hello(
        _ position: LogPosition, process: UInt64 = 7, isActive: Bool = false,
        rows: ClosedRange<UInt16> = 1...1, commands: ClosedRange<UInt8> = 1...1
    ) -> NodeHello {
        NodeHello(
            position: position.ofHello, node: "n", address: "h:1", process: process, run: 3,
            isActive: isActive, rowFormats: rows, commandFormats: commands)
    }

    private static func frame(_ row: ReplicatedRow) -> NodeFrame {
        .row(
            NodeRow(
                epoch: row.position.epoch, row: row.position.row, chain: row.position.chain,
                body: row.body))
    }

    private static func committed(_ row: ReplicatedRow) -> NodeFrame {
        .committed(NodeCommitted(row: row.position.row, chain: row.position.chain))
    }

    /// A follower's link behind the active node's HELLO.
    private static func following(
        _ position: LogPosition, active: LogPosition, bytesMax: Int = 1000
    ) throws(LinkFault) -> FollowerLink {
        var link = FollowerLink(hello(position), position: position, bytesMax: bytesMax)
        _ = try link.receive(.hello(hello(active, process: 1, isActive: true)))
        return link
    }

    // MARK: Following

    @Test("OPS-7 a row waits for COMMITTED")
    func waits() throws {
        let log = Self.log(2)
        var link = try Self.following(log[0].position, active: log[0].position)
        same(link.beginForwarding(), true)
        #expect(try link.receive(Self.frame(log[1])).isEmpty)
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .wait)
        #expect(try link.receive(Self.committed(log[1])) == [.rows])
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .apply([log[1]]))
        try link.applied(log[1].position)
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .wait)
        same(link.report(), .applied(NodeApplied(row: 2, outcomes: 0)))
        same(link.report(), nil)
        #expect(link.unappliedByteCount == 0)
    }

    @Test("OPS-7 a refused row gives its number to the next row")
    func refusedRow() throws {
        let log = Self.log(2)
        let other = ReplicatedRow(after: log[0].position, epoch: 1, body: Array("other".utf8))
        var link = try Self.following(log[0].position, active: log[0].position)
        _ = try link.receive(Self.frame(other))
        _ = try link.receive(Self.frame(log[1]))
        _ = try link.receive(Self.committed(log[1]))
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .apply([log[1]]))

        // The row in its place is left out.
        link = try Self.following(log[0].position, active: log[0].position)
        _ = try link.receive(Self.frame(other))
        _ = try link.receive(Self.committed(log[1]))
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .readLog(through: 2))
        #expect(link.unappliedByteCount == 0)
    }

    @Test("OPS-7 a follower behind reads the log up to the rows of the link, and forwards after it")
    func catchingUp() throws {
        let log = Self.log(8)
        var link = try Self.following(log[1].position, active: log[4].position)
        same(link.beginForwarding(), false)
        _ = try link.receive(Self.frame(log[5]))
        _ = try link.receive(Self.committed(log[5]))
        // Row 7 is left out.
        _ = try link.receive(Self.committed(log[6]))
        _ = try link.receive(Self.frame(log[7]))
        _ = try link.receive(Self.committed(log[7]))
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .readLog(through: 5))
        try link.applied(log[3].position)
        same(link.beginForwarding(), false)
        try link.applied(log[4].position)
        same(link.beginForwarding(), true)
        same(link.beginForwarding(), false)
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .apply([log[5]]))
        try link.applied(log[5].position)
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .readLog(through: 7))
        try link.applied(log[7].position)
        #expect(try link.step(rowsMax: 16, bytesMax: 1000) == .wait)
        #expect(link.unappliedByteCount == 0)
    }

    @Test("OPS-7 rows go into one transaction up to the bounds, the first in any case")
    func transactions() throws {
        let log = Self.log(6, epoch: 0)
        var link = try Self.following(Self.beginning, active: Self.beginning)
        for row in log {
            _ = try link.receive(Self.frame(row))
            _ = try link.receive(Self.committed(row))
        }
        #expect(try link.step(rowsMax: 4, bytesMax: 1000) == .apply(Array(log[..<4])))
        #expect(try link.step(rowsMax: 4, bytesMax: 10) == .apply(Array(log[..<2])))
        #expect(try link.step(rowsMax: 4, bytesMax: 1) == .apply(Array(log[..<1])))
    }

    @Test("OPS-7 a wrong chain is an alarm, whether the row came over the link or from the log")
    func divergence() throws {
        let log = Self.log(3)
        let other = ReplicatedRow(after: log[0].position, epoch: 1, body: Array("other".utf8))
        // The body does not lead to the chain.
        var link = try Self.following(log[0].position, active: log[0].position)
        let false2 = ReplicatedRow(read: log[1].position, body: Array("falsified".utf8))
        _ = try link.receive(Self.frame(false2))
        _ = try link.receive(Self.committed(log[1]))
        #expect(throws: LinkFault.diverged(row: 2)) { try link.step(rowsMax: 9, bytesMax: 999) }
        // The predecessor is of another history.
        link = try Self.following(log[0].position, active: log[1].position)
        _ = try link.receive(Self.frame(log[2]))
        _ = try link.receive(Self.committed(log[2]))
        try link.applied(other.position)
        #expect(throws: LinkFault.diverged(row: 3)) { try link.step(rowsMax: 9, bytesMax: 999) }
        // The store has another row than the committed one.
        link = try Self.following(log[0].position, active: log[0].position)
        _ = try link.receive(Self.frame(log[1]))
        _ = try link.receive(Self.committed(log[1]))
        #expect(throws: LinkFault.diverged(row: 2)) { try link.applied(other.position) }
        // The active node's row at HELLO is another one.
        #expect(throws: LinkFault.diverged(row: 2)) {
            try Self.following(log[1].position, active: other.position)
        }
        #expect(LinkFault.diverged(row: 2).isAlarm && LinkFault.foreign.isAlarm)
        #expect(!LinkFault.superseded(epoch: 2).isAlarm)
    }

    @Test("OPS-7 a follower ends a link of an epoch that is over, or of a node that is not active")
    func oldEpochs() throws {
        let log = Self.log(2)
        var link = try Self.following(log[0].position, active: log[0].position)
        let takeover = ReplicatedRow(after: log[0].position, epoch: 2, body: [])
        #expect(throws: LinkFault.superseded(epoch: 2)) { try link.applied(takeover.position) }
        #expect(throws: LinkFault.superseded(epoch: 2)) {
            try link.receive(Self.frame(takeover))
        }
        #expect(throws: LinkFault.notActive) {
            try Self.following(log[1].position, active: log[0].position)
        }
        var other = FollowerLink(Self.hello(log[0].position), position: log[0].position)
        #expect(throws: LinkFault.notActive) {
            try other.receive(.hello(Self.hello(log[0].position)))
        }
        // The follower has read of the takeover between the two HELLOs.
        var late = FollowerLink(Self.hello(log[0].position), position: log[0].position)
        try late.applied(takeover.position)
        #expect(throws: LinkFault.superseded(epoch: 2)) {
            try late.receive(.hello(Self.hello(log[0].position, isActive: true)))
        }
    }

    @Test("OPS-7 a row or a COMMITTED out of turn ends the link")
    func turns() throws {
        let log = Self.log(4)
        var link = try Self.following(log[0].position, active: log[0].position)
        #expect(throws: LinkFault.outOfTurn(row: 3, expected: 2)) {
            try link.receive(Self.frame(log[2]))
        }
        #expect(throws: LinkFault.outOfTurn(row: 3, expected: 2)) {
            try link.receive(Self.committed(log[2]))
        }
        _ = try link.receive(Self.committed(log[1]))
        #expect(throws: LinkFault.outOfTurn(row: 2, expected: 3)) {
            try link.receive(Self.committed(log[1]))
        }
    }

    @Test("OPS-7 a follower keeps no more than the bound of rows that it has not applied")
    func followerBounds() throws {
        let log = Self.log(3, epoch: 0)
        var link = try Self.following(
            Self.beginning, active: Self.beginning, bytesMax: log[0].body.count * 2)
        for row in log[..<2] {
            _ = try link.receive(Self.frame(row))
            _ = try link.receive(Self.committed(row))
        }
        #expect(throws: LinkFault.tooMuch) { try link.receive(Self.frame(log[2])) }
    }

    // MARK: Leading

    @Test("OPS-7 other clusters, formats and rows are refused at HELLO, and frames before it")
    func greeting() throws {
        let log = Self.log(2)
        var intake = ForwardIntake()
        func link() -> ActiveLink { ActiveLink(Self.hello(log[0].position), head: log[0].position) }
        func refusal(_ hello: NodeHello) -> LinkFault? {
            var link = link()
            do throws(LinkFault) {
                _ = try link.receive(.hello(hello), &intake)
                return nil
            } catch { return error }
        }
        let foreign = LogPosition(beginningOf: Array(2...17))
        #expect(refusal(Self.hello(foreign)) == .foreign)
        #expect(refusal(Self.hello(Self.beginning, rows: 2...3)) == .formats)
        #expect(refusal(Self.hello(Self.beginning, commands: 2...2)) == .formats)
        #expect(refusal(Self.hello(log[1].position)) == .ahead(row: 2))
        #expect(refusal(Self.hello(log[0].position, isActive: true)) == .unexpected(.hello))
        #expect(refusal(Self.hello(Self.beginning, rows: 1...9)) == nil)
        var early = link()
        #expect(throws: LinkFault.unexpected(.applied)) {
            try early.receive(.applied(NodeApplied(row: 1, outcomes: 0)), &intake)
        }
        same(early.append(log[1]), nil)
        same(early.committed(log[1].position), nil)
        // HELLO has the last committed row.
        let events = try early.receive(.hello(Self.hello(Self.beginning)), &intake)
        var answer = Self.hello(log[1].position, isActive: true)
        answer.position = log[1].position.ofHello
        #expect(
            events == [.greeted(Self.hello(Self.beginning)), .send(.hello(answer))])
        #expect(throws: LinkFault.unexpected(.hello)) {
            try early.receive(.hello(Self.hello(Self.beginning)), &intake)
        }
    }

    @Test("OPS-7 rows beyond the bound are left out until half of the bound is applied")
    func leavingOut() throws {
        let log = Self.log(9)
        var intake = ForwardIntake()
        let size = log[0].body.count
        var link = ActiveLink(
            Self.hello(Self.beginning), head: Self.beginning, bytesMax: size * 4)
        _ = try link.receive(.hello(Self.hello(Self.beginning)), &intake)
        var sent: [UInt64] = []
        for row in log[..<6] {
            if link.append(row) != nil { sent.append(row.position.row) }
            same(link.committed(row.position), Self.committed(row))
        }
        #expect(sent == [1, 2, 3, 4])
        #expect(link.leavesOut && link.unappliedByteCount == size * 4)
        // A single applied row is not enough.
        _ = try link.receive(.applied(NodeApplied(row: 1, outcomes: 0)), &intake)
        same(link.append(log[6]), nil)
        _ = link.committed(log[6].position)
        _ = try link.receive(.applied(NodeApplied(row: 2, outcomes: 0)), &intake)
        same(link.append(log[7]), Self.frame(log[7]))
        #expect(!link.leavesOut && link.unappliedByteCount == size * 3)
        // A refused row counts no more.
        let other = ReplicatedRow(after: log[6].position, epoch: 1, body: Array("oth 8".utf8))
        same(link.append(other), Self.frame(other))
        #expect(link.unappliedByteCount == size * 3)
        #expect(throws: LinkFault.ahead(row: 9)) {
            try link.receive(.applied(NodeApplied(row: 9, outcomes: 0)), &intake)
        }
    }

    @Test("OPS-7 a command that comes again is not applied again, and its lost answer comes again")
    func intake() throws {
        var intake = ForwardIntake(forwardedMax: 1)
        func forward(_ number: UInt64) -> NodeForward {
            NodeForward(run: 3, number: number, command: [])
        }
        func link() throws -> ActiveLink {
            var link = ActiveLink(Self.hello(Self.beginning), head: Self.beginning)
            _ = try link.receive(.hello(Self.hello(Self.beginning)), &intake)
            return link
        }
        var first = try link()
        #expect(try first.receive(.forward(forward(4)), &intake) == [.command(forward(4))])
        #expect(try first.receive(.forward(forward(6)), &intake) == [.command(forward(6))])
        #expect(throws: LinkFault.tooMuch) { try first.receive(.forward(forward(7)), &intake) }
        let outcome = NodeOutcome(run: 3, number: 4, row: 0, outcome: [9])
        intake.answered(outcome, of: 7)
        intake.answeredByRow(of: 7)
        var second = try link()
        #expect(
            try second.receive(.forward(forward(4)), &intake) == [.send(.outcome(outcome))])
        #expect(try second.receive(.forward(forward(6)), &intake).isEmpty)
        #expect(throws: LinkFault.commandOutOfTurn(number: 5, after: 6)) {
            try second.receive(.forward(forward(5)), &intake)
        }
        #expect(intake.keptCount(of: 7) == 1)
        // The answer is kept until APPLIED counts it.
        #expect(throws: LinkFault.uncounted(outcomes: 2)) {
            try second.receive(.applied(NodeApplied(row: 0, outcomes: 2)), &intake)
        }
        _ = try second.receive(.applied(NodeApplied(row: 0, outcomes: 1)), &intake)
        #expect(intake.keptCount(of: 7) == 0)
        #expect(throws: LinkFault.uncounted(outcomes: 0)) {
            try second.receive(.applied(NodeApplied(row: 0, outcomes: 0)), &intake)
        }
        // An answer is kept until its number is left out over a new link.
        var third = try link()
        #expect(try third.receive(.forward(forward(4)), &intake).isEmpty)
        #expect(try third.receive(.forward(forward(8)), &intake) == [.command(forward(8))])
        let last = NodeOutcome(run: 3, number: 8, row: 0, outcome: [9])
        intake.answered(last, of: 7)
        same(third.outcome(last), .outcome(last))
        var fourth = try link()
        #expect(try fourth.receive(.forward(forward(9)), &intake) == [.command(forward(9))])
        #expect(intake.keptCount(of: 7) == 0)
        intake.end(7)
        #expect(intake.keptCount(of: 7) == 0)
    }

    @Test("OPS-7 a side of a link takes no frame of its own side, and PING gets PONG")
    func sides() throws {
        var intake = ForwardIntake()
        var active = ActiveLink(Self.hello(Self.beginning), head: Self.beginning)
        _ = try active.receive(.hello(Self.hello(Self.beginning)), &intake)
        var follower = try Self.following(Self.beginning, active: Self.beginning)
        let row = Self.log(1)[0]
        for frame in [Self.frame(row), Self.committed(row)] {
            #expect(throws: LinkFault.unexpected(frame.type)) {
                try active.receive(frame, &intake)
            }
        }
        for frame: NodeFrame in [
            .applied(NodeApplied(row: 0, outcomes: 0)),
            .forward(NodeForward(run: 1, number: 1, command: [])), .ended(NodeEnded(entries: [])),
        ] {
            #expect(throws: LinkFault.unexpected(frame.type)) { try follower.receive(frame) }
        }
        let pong = NodeFrame.pong(Pong(value: 5))
        #expect(try active.receive(.ping(Ping(value: 5)), &intake) == [.send(pong)])
        #expect(try follower.receive(.ping(Ping(value: 5))) == [.send(pong)])
        let entry = NodeEnded.Entry(
            project: .init(1), messageNumber: 1, delivered: 1, blocks: 1, isEnded: false)
        let many = NodeEnded(
            entries: Array(repeating: entry, count: NodeLimits.endedEntriesMax + 1))
        #expect(throws: LinkFault.tooMuch) { try active.receive(.ended(many), &intake) }
    }

    @Test("OPS-7 a question waits for the fate of a row on its way into the log")
    func asking() throws {
        let log = Self.log(2)
        var intake = ForwardIntake()
        var link = ActiveLink(Self.hello(Self.beginning), head: Self.beginning)
        _ = try link.receive(.hello(Self.hello(Self.beginning)), &intake)
        func ask(_ correlation: UInt32) throws {
            let question = NodeFrame.head(NodeHead(correlation: correlation, row: 0))
            #expect(try link.receive(question, &intake) == [.asked])
        }
        try ask(1)
        same(link.takeAsked(), .head(NodeHead(correlation: 1, row: 0)))
        same(link.takeAsked(), nil)
        _ = link.append(log[0])
        try ask(2)
        same(link.takeAsked(), nil)
        _ = link.committed(log[0].position)
        same(link.takeAsked(), .head(NodeHead(correlation: 2, row: 1)))
        _ = link.append(log[1])
        try ask(3)
        link.refused()
        same(link.takeAsked(), .head(NodeHead(correlation: 3, row: 1)))
        try ask(4)
        #expect(throws: LinkFault.tooMuch) {
            try link.receive(.head(NodeHead(correlation: 5, row: 0)), &intake)
        }
    }

    // MARK: Commands and questions

    @Test("OPS-7 a full book takes no command, and an answer makes room")
    func book() {
        var book = ForwardBook<String>(countMax: 2)
        same(book.forward([1], run: 3, reply: "a")?.number, 1)
        same(book.forward([2], run: 3, reply: "b")?.number, 2)
        same(book.forward([3], run: 3, reply: "c"), nil)
        same(book.answered(run: 4, number: 1), nil)
        same(book.answered(run: 3, number: 1), "a")
        same(book.answered(run: 3, number: 1), nil)
        same(book.forward([4], run: 5, reply: "d")?.number, 3)
        same(book.again().map(\.number), [2, 3])
        same(book.again().map(\.run), [3, 5])
        // An outcome that waits for its row is not forwarded again, and answers once.
        let held = NodeOutcome(run: 3, number: 2, row: 9, outcome: [8])
        same(book.received(held, applied: 8)?.reply, nil)
        same(book.received(held, applied: 9)?.reply, nil)
        same(book.again().map(\.number), [3])
        #expect(book.count == 2)
        same(book.applied(8).map(\.reply), [])
        same(book.applied(9).map(\.reply), ["b"])
        same(book.applied(9).map(\.reply), [])
        let now = NodeOutcome(run: 5, number: 3, row: 9, outcome: [7])
        same(book.received(now, applied: 9)?.outcome, [7])
        #expect(book.count == 0)
        _ = book.forward([5], run: 5, reply: "e")
        same(book.takeAll().map(\.reply), ["e"])
        #expect(book.count == 0)
    }

    @Test("OPS-7 questions that come while the active node is asked wait for the next asking")
    func readIndex() throws {
        var index = ReadIndex<String>()
        same(index.ask("a", applied: 4, hasLink: false), nil)
        same(index.begin(applied: 4), .head(NodeHead(correlation: 1, row: 4)))
        same(index.ask("b", applied: 4, hasLink: true), nil)
        #expect(throws: LinkFault.answerOutOfTurn(correlation: 2)) {
            try index.received(NodeHead(correlation: 2, row: 6), applied: 4)
        }
        var (ready, next) = try index.received(NodeHead(correlation: 1, row: 6), applied: 4)
        #expect(ready.isEmpty && next == .head(NodeHead(correlation: 2, row: 4)))
        same(index.applied(5), [])
        same(index.applied(6), ["a"])
        // The link is lost with the question, and the next link asks again.
        same(index.begin(applied: 6), .head(NodeHead(correlation: 3, row: 6)))
        (ready, next) = try index.received(NodeHead(correlation: 3, row: 6), applied: 6)
        #expect(ready == ["b"] && next == nil)
        #expect(index.count == 0)
        _ = index.ask("c", applied: 6, hasLink: true)
        _ = index.ask("d", applied: 6, hasLink: true)
        same(index.takeAll(), ["c", "d"])
        #expect(index.count == 0)
    }
}
