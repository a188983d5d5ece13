// SPDX-License-Identifier: Apache-2.0
//
// Peers with valid credentials that ask for what hurts others: answers longer than a frame, changes
// of an instance that is no longer theirs..

import Martlet
import Testing

@Suite("Hostile peers with credentials")
struct HostilityTests {
    @Test("NET-3 CON-9 an answer longer than a frame costs nobody anything")
    func boundsAnswers() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (bystander, _) = try test.newDevice()
        let sender = try test.sender()
        // Each of the mixed operators is worth an advice that quotes everything to its left.
        var condition = "'a'in topics"
        var isAnd = false
        while condition.utf8.count + 14 <= Limits.conditionBytesMax {
            condition += (isAnd ? "&&" : "||") + "'a'in topics"
            isAnd.toggle()
        }
        try sender.send(
            .condition(ConditionQuestion(kind: .explain, correlation: 1, condition: condition)))
        guard case .explanation(let explanation) = try sender.next() else {
            Issue.record("not explained")
            return
        }
        #expect(!explanation.advice.isEmpty)
        try bystander.roundTrip()
        try sender.roundTrip()
        try await test.broker.close()
    }
}
