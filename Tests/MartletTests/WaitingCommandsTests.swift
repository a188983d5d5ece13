// SPDX-License-Identifier: Apache-2.0
//
// How commands come to their transactions: the shares of projects, their order, and what becomes of a
// transaction that others wait for. No thread, no store: commands go in, batches come out, and the test
// says what was applied of them. Rests on WaitingCommands.

import Martlet
import MartletCommitter
import MartletEngine
import MartletThreads
import Testing

/// Commands of numbered projects, named by their topics, and what of them was applied.
private struct Line {
    /// In their order: a name, and how many tokens.
    var asked: [(name: String, tokenCount: Int)] = []
    /// What was applied: a name, and from which to which token.
    var applied: [(name: String, tokens: Range<Int>)] = []
    var askedUnits = 0
    var appliedUnits = 0
}

private final class Desk {
    var waiting = WaitingCommands()
    var lines: [UInt32: Line] = [:]
    private var count = 0

    /// A change of so many tokens; 0: a message.
    func ask(_ project: UInt32, tokens tokenCount: Int) {
        count += 1
        let name = "n\(count)"
        lines[project, default: Line()].asked.append((name, tokenCount))
        lines[project]!.askedUnits += tokenCount == 0 ? 4 : tokenCount
        let number = ProjectNumber(project)
        let command: Command =
            tokenCount == 0
            ? .send(project: number, message: SendCommand(target: .topic(name), body: []))
            : .changeTopic(
                project: number, topic: name, change: .subscribe,
                tokens: Array(repeating: "token", count: tokenCount))
        waiting.add([Request(command) { _ in }])
    }

    /// What the engine would say that applies no more units than these, and notes what it applied.
    func apply(_ batch: [Request], unitsMax: Int = .max) -> [Outcome] {
        var left = unitsMax
        return batch.map { request in
            switch request.command {
            case .changeTopic(let project, let name, let change, let tokens, var progress):
                let count = min(
                    progress.stepMax, max(0, left), tokens.count - progress.doneCount)
                let end = progress.doneCount + count
                if end == progress.doneCount { return .unfinished(request.command) }
                lines[project.rawValue]!.applied.append((name, progress.doneCount..<end))
                left -= end - progress.doneCount
                lines[project.rawValue]!.appliedUnits += end - progress.doneCount
                if end == tokens.count {
                    return .topicsChanged(
                        TopicChangeResult(successCount: tokens.count, failures: []))
                }
                progress.doneCount = end
                progress.stepMax = .max
                return .unfinished(
                    .changeTopic(
                        project: project, topic: name, change: change, tokens: tokens,
                        progress: progress))
            case .send(let project, let message):
                guard left > 0, case .topic(let name) = message.target else {
                    return .unfinished(request.command)
                }
                left -= 4
                lines[project.rawValue]!.appliedUnits += 4
                lines[project.rawValue]!.applied.append((name, 0..<0))
                return .done
            default: return .done
            }
        }
    }

    /// One transaction, applied as a whole.
    /// - Returns: the projects of its commands.
    @discardableResult
    func commit() -> [UInt32] {
        let batch = waiting.next()
        waiting.putBack(batch, apply(batch))
        return projects(batch)
    }

    func projects(_ batch: [Request]) -> [UInt32] {
        batch.map { request in
            switch request.command {
            case .changeTopic(let project, _, _, _, _): project.rawValue
            case .send(let project, _): project.rawValue
            default: 0
            }
        }
    }

    /// Units that were applied of a project.
    func units(_ project: UInt32) -> Int { lines[project]?.appliedUnits ?? 0 }

    func askedUnits(_ project: UInt32) -> Int { lines[project]?.askedUnits ?? 0 }

    /// Whether what was applied is the beginning of what was asked, in order, each token once.
    func isInOrder(_ project: UInt32) -> Bool {
        let line = lines[project]!
        var at = 0
        var position = 0
        for (name, tokens) in line.applied {
            guard at < line.asked.count, line.asked[at].name == name,
                tokens.lowerBound == position
            else { return false }
            position = tokens.upperBound
            if position == line.asked[at].tokenCount { (at, position) = (at + 1, 0) }
        }
        return true
    }

    func isDone(_ project: UInt32) -> Bool {
        let line = lines[project]!
        return isInOrder(project)
            && line.applied.reduce(0) { $0 + $1.tokens.count }
                == line.asked.reduce(0) { $0 + $1.tokenCount }
            && Set(line.applied.map(\.name)).count == line.asked.count
    }
}

@Suite("Commands that wait")
struct WaitingCommandsTests {
    @Test("FAN-4: a project alone gives as many commands as a transaction takes")
    func alone() {
        let desk = Desk()
        for _ in 0..<5000 { desk.ask(1, tokens: 0) }
        #expect(desk.commit().count == WaitingCommands.perTransactionMax)
        #expect(desk.commit().count == 5000 - WaitingCommands.perTransactionMax)
        #expect(desk.waiting.isEmpty && desk.isDone(1))
        for _ in 0..<16 { desk.ask(1, tokens: 1000) }
        #expect(desk.commit().count == 16)
        #expect(desk.waiting.isEmpty && desk.isDone(1))
    }

    @Test(
        "TOP-4 FAN-2: a message beside 16 × 1000 changes of another project is in the next transaction, with 64 of the changes at most"
    )
    func besideChanges() {
        let desk = Desk()
        for _ in 0..<16 { desk.ask(1, tokens: 1000) }
        desk.ask(2, tokens: 0)
        #expect(desk.commit() == [1, 2])
        #expect(desk.units(1) == WaitingCommands.unitsPerLine && desk.isDone(2))
        while !desk.waiting.isEmpty { desk.commit() }
        #expect(desk.isDone(1))
    }

    @Test(
        "FAN-2: who comes while another project's transaction is applied joins it, and the rest of that one's commands waits, in its order"
    )
    func joins() {
        let desk = Desk()
        for _ in 0..<3 { desk.ask(1, tokens: 1000) }
        desk.ask(1, tokens: 0)
        let batch = desk.waiting.next()
        #expect(batch.count == 4 && !desk.waiting.mustEnd)
        // Its own commands are no reason to end.
        desk.ask(1, tokens: 7)
        #expect(!desk.waiting.mustEnd)
        desk.ask(2, tokens: 0)
        #expect(desk.waiting.mustEnd)
        let own = desk.apply(batch, unitsMax: 1100)
        let joining = desk.waiting.joining(canAsk: true)
        #expect(desk.projects(joining) == [2])
        let outcomes = own + desk.apply(joining)
        desk.waiting.putBack(batch + joining, outcomes)
        #expect(desk.isDone(2) && desk.isInOrder(1) && desk.units(1) == 1100)
        while !desk.waiting.isEmpty { desk.commit() }
        #expect(desk.isDone(1))
    }

    @Test("FAN-2: what a project took while no other waited is a debt that it pays first")
    func debt() {
        let desk = Desk()
        // Not alone: another one was there a moment ago.
        desk.ask(2, tokens: 0)
        desk.ask(1, tokens: 1000)
        desk.ask(1, tokens: 1000)
        desk.commit()
        #expect(desk.commit() == [1, 1])
        #expect(desk.units(1) == WaitingCommands.unitsPerLine + WaitingCommands.unitsOfOneMax)
        let paid = WaitingCommands.unitsOfOneMax / WaitingCommands.unitsPerLine - 1
        for _ in 0..<paid {
            desk.ask(2, tokens: 0)
            #expect(desk.commit() == [2])
        }
        desk.ask(2, tokens: 0)
        #expect(desk.commit().contains(1))
    }

    @Test("FAN-2: lines that are all in debt do not wait for its end")
    func allInDebt() {
        let desk = Desk()
        for _ in 0..<4 {
            for project: UInt32 in 1...2 {
                let targets = Array(repeating: SendCommand.Target.topic("t"), count: 1000)
                desk.waiting.add([
                    Request(
                        .send(
                            project: ProjectNumber(project),
                            message: SendCommand(target: .several(targets), body: []))
                    ) { _ in }
                ])
            }
        }
        for _ in 0..<4 {
            let batch = desk.waiting.next()
            #expect(batch.count == 2)
            desk.waiting.putBack(batch, batch.map { _ in .done })
        }
        #expect(desk.waiting.isEmpty)
    }

    @Test("TOP-6: the commands behind a change that was cut wait for its end")
    func behindACut() {
        let desk = Desk()
        desk.ask(1, tokens: 1000)
        desk.ask(1, tokens: 0)
        desk.ask(2, tokens: 0)
        desk.commit()
        #expect(desk.lines[1]!.applied.count == 1)
        while !desk.waiting.isEmpty { desk.commit() }
        #expect(desk.isDone(1) && desk.isDone(2))
    }

    @Test(
        "FAN-2: whoever was not reached when a transaction's time was over is first in the next one"
    )
    func unreached() {
        let desk = Desk()
        for _ in 0..<20 {
            for project: UInt32 in 1...8 { desk.ask(project, tokens: 0) }
        }
        var reached: Set<UInt32> = []
        // Each has time for one project's commands.
        for _ in 0..<8 {
            let batch = desk.waiting.next()
            reached.insert(desk.projects(batch)[0])
            desk.waiting.putBack(batch, desk.apply(batch, unitsMax: WaitingCommands.unitsPerLine))
        }
        #expect(reached.count == 8)
    }

    @Test("FAN-2: projects that always wait have equal shares, whatever their commands are")
    func shares() {
        let desk = Desk()
        for _ in 0..<1000 {
            for project: UInt32 in 1...4 {
                // The first sends; the others change ever more tokens at a time.
                let tokenCount = [0, 10, 100, 1000][Int(project) - 1]
                while desk.units(project) > desk.askedUnits(project) - 3000 {
                    desk.ask(project, tokens: tokenCount)
                }
            }
            desk.commit()
        }
        let units = (1...4).map { desk.units($0) }
        let slack = WaitingCommands.debtMax + 1000
        #expect(units.max()! - units.min()! <= slack, "\(units)")
        for project: UInt32 in 1...4 { #expect(desk.isInOrder(project)) }
    }

    @Test(
        "FAN-2: a line is full at its bound; who has few is taken even when all together have too many"
    )
    func bounds() {
        let desk = Desk()
        for _ in 0...WaitingCommands.waitingPerProjectMax { desk.ask(1, tokens: 0) }
        #expect(desk.waiting.takeRefused().count == 1)
        #expect(desk.waiting.takeRefused().isEmpty)
        for project: UInt32 in 2...4 {
            for _ in 0..<WaitingCommands.waitingPerProjectMax { desk.ask(project, tokens: 0) }
        }
        #expect(desk.waiting.takeRefused().isEmpty)
        for _ in 0...WaitingCommands.fewMax { desk.ask(5, tokens: 0) }
        #expect(desk.waiting.takeRefused().count == 1)
    }

    @Test(
        "TOP-4 FAN-2: whatever comes when and wherever transactions end, each project's commands are applied in their order, each once",
        arguments: 0..<200)
    func anything(seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed) &* 7919 &+ 1)
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        let desk = Desk()
        let projectCount = number(1...6)
        func comes() {
            for _ in 0..<number(0...3) {
                let project = UInt32(number(1...projectCount))
                let tokenCount = number(0...2) == 0 ? number(1...1000) : 0
                for _ in 0..<(tokenCount == 0 ? number(1...40) : number(1...4)) {
                    desk.ask(project, tokens: tokenCount)
                }
            }
        }
        for _ in 0..<number(1...400) {
            comes()
            var batch = desk.waiting.next()
            comes()
            let isCut = number(0...3) == 0 || desk.waiting.mustEnd
            var outcomes = desk.apply(batch, unitsMax: isCut ? number(1...500) : .max)
            let joining = desk.waiting.joining(canAsk: true)
            #expect(Set(desk.projects(joining)).isDisjoint(with: desk.projects(batch)))
            outcomes += desk.apply(joining)
            batch += joining
            comes()
            desk.waiting.putBack(batch, outcomes)
        }
        var transactions = 0
        while !desk.waiting.isEmpty, transactions < 100_000 {
            transactions += 1
            desk.commit()
        }
        for project in desk.lines.keys { #expect(desk.isDone(project)) }
    }
}
