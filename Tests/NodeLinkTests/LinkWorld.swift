// SPDX-License-Identifier: Apache-2.0
//
// A world of three nodes around the state machines of links: a log with a fence, links that lose their ends, nodes that
// take over. Frames travel as bytes. The world knows everything: every row of the log, every answer that a client got,
// every row of every store. Its checks use no code of the links. Rests on the links, and on a seed.

import EngineBench
import MartletCluster
import MartletRows
import MartletWire

final class LinkWorld {
    static let bytesMax = 400
    static let rowsMax = 8
    static let forwardedMax = 30

    var random: SeededGenerator
    let breakage: Breakage?
    let beginning = LogPosition(beginningOf: Array(1...16))
    var log: [ReplicatedRow] = []
    var epoch: UInt32 = 0
    var nodes: [Node] = []
    var wires: [Wire] = []
    var findings: [String] = []

    // What clients saw.
    var commandCount = 0
    var questionCount = 0
    /// By command, the name and its answers.
    var names: [Int: Name] = [:]
    var answers: [Int: [String]] = [:]
    /// By question, the rows that any client could know of when it was asked.
    var asked: [Int: Int] = [:]
    var answeredQuestions: Set<Int> = []
    /// Rows that any client was told of.
    var told = 0

    // What happened, so that a history without events does not count as a test.
    var counts: [String: Int] = [:]
    func count(_ event: String) { counts[event, default: 0] += 1 }

    init(seed: UInt64, breakage: Breakage? = nil) {
        random = SeededGenerator(seed: seed)
        self.breakage = breakage
        for index in 0..<3 { nodes.append(Node(index: index, beginning: beginning)) }
        takeOver(nodes[0])
    }

    func find(_ text: String) { if findings.count < 20 { findings.append(text) } }

    var logEnd: LogPosition { log.last?.position ?? beginning }

    // MARK: Stores

    /// Puts a row into a store, and answers the node's commands of the row.
    func store(_ row: ReplicatedRow, in node: Node) {
        let index = Int(row.position.row) - 1
        if index != node.rows.count { find("node \(node.index) skips or repeats a row") }
        if index >= log.count || log[index] != row {
            find("node \(node.index) applies a row that the log does not have")
        }
        node.rows.append(row)
        node.position = row.position
        for name in Body(row.body).names where name.process == node.process {
            if let reply = node.book.answered(run: node.run, number: name.number) {
                answer(reply, "row \(row.position.row)", node, needs: row.position.row)
            }
        }
        for answer in node.book.applied(row.position.row) {
            tell(answer, node, needs: 0)
        }
        for question in node.questions.applied(row.position.row) { settle(question, node) }
    }

    func readLog(_ node: Node, through row: UInt64) {
        while node.position.row < min(row, UInt64(log.count)) {
            store(log[Int(node.position.row)], in: node)
        }
    }

    // MARK: Clients

    func tell(_ answer: ForwardBook<Int>.Answer, _ node: Node, needs row: UInt64) {
        self.answer(answer.reply, String(decoding: answer.outcome, as: UTF8.self), node, needs: row)
    }

    func answer(_ reply: Int, _ text: String, _ node: Node, needs row: UInt64) {
        answers[reply, default: []].append(text)
        if node.position.row < row { find("an answer came before its rows") }
        told = max(told, Int(node.position.row))
        count(text == "none" ? "answer without a row" : "answer by a row")
    }

    func settle(_ question: Int, _ node: Node) {
        if !answeredQuestions.insert(question).inserted { find("a question was answered twice") }
        if Int(node.position.row) < asked[question]! {
            find("a question was answered from behind")
        }
        told = max(told, Int(node.position.row))
        count("question")
    }

    func command(_ node: Node) {
        let reply = commandCount
        guard
            let forward = node.book.forward(
                Array("c\(reply)".utf8), run: node.run, reply: reply)
        else { return count("full book") }
        commandCount += 1
        let name = Name(process: node.process, number: forward.number)
        names[reply] = name
        if node.epoch != nil {
            node.queue.append(name)
        } else if node.isForwarding, let wire = node.wire {
            send(.forward(forward), toActive: wire)
        }
    }

    func question(_ node: Node) {
        let question = questionCount
        questionCount += 1
        asked[question] = told
        if node.epoch != nil, node.hasLease, node.open == nil {
            settle(question, node)
        } else if breakage == .ownHead {
            settle(question, node)
        } else if let frame = node.questions.ask(
            question, applied: node.position.row,
            hasLink: node.link?.isForwarding == true)
        {
            send(frame, toActive: node.wire!)
        }
    }

    // MARK: Steps

    func step() {
        let node = nodes.randomElement(using: &random)!
        switch random.number(0...99) {
        case 0..<14: command(node)
        case 14..<17: question(node)
        case 17..<32: begin(node)
        case 32..<44: decide(node)
        case 44..<54: hear(node)
        case 54..<66: if let wire = wires.randomElement(using: &random) { deliverToActive(wire) }
        case 66..<80: if let wire = wires.randomElement(using: &random) { deliverToFollower(wire) }
        case 80..<94: follow(node)
        case 94..<97: open(node)
        case 97: if random.chance(25) { leave(node) }
        case 98: if random.chance(8), node.epoch == nil { takeOver(node) }
        default:
            // Links whose ends are both gone, or that nobody will read.
            wires.removeAll { wire in
                (wire.followerLeft && wire.activeLeft)
                    || (wire.followerLeft && wire.toActive.isEmpty)
            }
        }
    }

    /// Everything goes on without further accidents, until nothing is left to do.
    func settleDown() {
        for _ in 0..<4000 {
            if !nodes.contains(where: \.hasLease) { takeOver(nodes[0]) }
            for node in nodes {
                isDecided(node)
                if node.epoch != nil, !node.hasLease { stepDown(node) }
                if node.epoch == nil, node.link == nil { open(node) }
                if let wire = node.wire, wire.activeLeft { leave(node) }
                if !node.queue.isEmpty, node.epoch != nil { begin(node) }
                decide(node)
                hear(node)
                follow(node)
            }
            for wire in wires {
                deliverToActive(wire)
                deliverToFollower(wire)
            }
            let isQuiet =
                nodes.allSatisfy { $0.book.count == 0 && $0.questions.count == 0 }
                && nodes.allSatisfy { $0.rows.count == log.count }
            if isQuiet { return }
        }
        find(
            "not quiet: \(nodes.map { "\($0.book.count) \($0.questions.count) \($0.rows.count)" }) of \(log.count)"
        )
    }

    /// What must be true of the whole history, by the log and by what clients saw.
    func check() {
        var rows: [Name: Int] = [:]
        var lasts: [UInt64: (epoch: UInt32, number: UInt64)] = [:]
        for row in log {
            for name in Body(row.body).names {
                if rows.updateValue(Int(row.position.row), forKey: name) != nil {
                    find("command \(name) is applied twice")
                }
                if let last = lasts[name.process], last.epoch == row.position.epoch,
                    last.number >= name.number
                {
                    find("command \(name) is applied out of its order")
                }
                lasts[name.process] = (row.position.epoch, name.number)
            }
        }
        for reply in 0..<commandCount {
            let name = names[reply]!
            let expected = rows[name].map { "row \($0)" } ?? "none"
            if answers[reply] != [expected] {
                find("command \(name) has \(answers[reply] ?? []) instead of \(expected)")
            }
        }
        if answeredQuestions.count != questionCount { find("a question has no answer") }
    }

    func run(steps: Int) {
        for _ in 0..<steps where findings.isEmpty { step() }
        if findings.isEmpty { settleDown() }
        if findings.isEmpty { check() }
    }
}
