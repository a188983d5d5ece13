// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: questions that are not to be answered from behind. Before a final refusal, and before the answer to a
// question, a follower asks the active node for its last committed row, and waits until its own store has the row.
// A question that comes while a HEAD is on its way waits for the next HEAD, because the row told may be older than the
// question. So one HEAD is on its way at a time, however many questions there are. Pure.

package import MartletWire

/// Questions that wait for rows. The owner bounds their number.
package struct ReadIndex<Question> {
    /// Questions that came after the open HEAD was sent.
    private var next: [Question] = []
    /// Questions of the open HEAD.
    private var asked: [Question] = []
    private var correlation: UInt32?
    private var lastCorrelation: UInt32 = 0
    /// Questions that wait until the store has a row, in the order of the rows.
    private var waiting: [(row: UInt64, questions: [Question])] = []

    package init() {}

    /// Questions without an answer.
    package var count: Int {
        next.count + asked.count + waiting.reduce(0) { $0 + $1.questions.count }
    }

    /// - Parameter applied: the last row in the store.
    /// - Returns: a frame for the active node; nil: one is on its way, or there is no link.
    package mutating func ask(
        _ question: Question, applied: UInt64, hasLink: Bool
    ) -> NodeFrame? {
        next.append(question)
        return hasLink ? send(applied) : nil
    }

    /// A new link is there. Questions of the former link are asked again.
    package mutating func begin(applied: UInt64) -> NodeFrame? {
        correlation = nil
        next = asked + next
        asked = []
        return send(applied)
    }

    private mutating func send(_ applied: UInt64) -> NodeFrame? {
        guard correlation == nil, !next.isEmpty else { return nil }
        lastCorrelation = lastCorrelation == .max ? 1 : lastCorrelation + 1
        correlation = lastCorrelation
        (asked, next) = (next, [])
        return .head(NodeHead(correlation: lastCorrelation, row: applied))
    }

    /// The active node has answered.
    /// - Returns: questions to be answered now, and the next frame for the active node.
    package mutating func received(
        _ head: NodeHead, applied: UInt64
    ) throws(LinkFault) -> (ready: [Question], send: NodeFrame?) {
        guard head.correlation == correlation else {
            throw .answerOutOfTurn(correlation: head.correlation)
        }
        correlation = nil
        let questions = asked
        asked = []
        let frame = send(applied)
        guard head.row > applied else { return (questions, frame) }
        let place = waiting.lastIndex { $0.row <= head.row }.map { $0 + 1 } ?? 0
        waiting.insert((head.row, questions), at: place)
        return ([], frame)
    }

    /// The store has the rows up to `row`.
    /// - Returns: the questions that waited for them.
    package mutating func applied(_ row: UInt64) -> [Question] {
        let count = waiting.firstIndex { $0.row > row } ?? waiting.count
        defer { waiting.removeFirst(count) }
        return waiting[..<count].flatMap(\.questions)
    }

    /// Takes all questions: there has been no active node for too long.
    package mutating func takeAll() -> [Question] {
        let all = waiting.flatMap(\.questions) + asked + next
        (waiting, asked, next, correlation) = ([], [], [], nil)
        return all
    }
}

extension ReadIndex: Sendable where Question: Sendable {}
